import DecartProtocol

/// Encodes session records. Prompts are only counted unless the user wants them, because they are private.
struct SessionsJSON {
    let showsPrompts: Bool

    func list(_ records: [SessionRecord]) -> JSONValue { .fields(["sessions": .array(records.map(value))]) }

    func value(_ record: SessionRecord) -> JSONValue {
        let (request, statistics) = (record.request, record.media)
        // Names only: a value of an unknown item may be a secret.
        let items = request.otherItems.keys.sorted().prefix(32).map { JSONValue.string(LogText.clean($0)) }
        return .fields([
            "number": .integer(record.number), "id": .string(record.sessionID), "model": .string(record.request.model),
            "state": .string(record.state.rawValue), "age_ms": .milliseconds(record.age),
            "transport": .optional(record.transport?.rawValue),
            "look": .optional(record.look?.style.name), "look_text": .optional(record.look?.description),
            "prompts": .integer(record.promptCount), "images": .integer(record.imageCount),
            "passthroughs": .integer(record.passthroughCount), "refusals": .integer(record.refusalCount),
            "malformed": .integer(record.malformedCount), "unknown": .integer(record.unknownCount),
            "offers": .integer(record.offerCount), "answers": .integer(record.answerCount),
            "offered_before_state": .bool(record.offeredBeforeState),
            "candidates": .integer(record.remoteCandidateCount),
            "end_of_candidates": .bool(record.receivedEndOfCandidates),
            "prompt_texts": showsPrompts ? .array(record.prompts.map(JSONValue.string)) : nil,
            "frames_in": .integer(record.frames.painted), "frames_out": .integer(record.frames.sent),
            "frames_untransformed": .integer(record.frames.raw), "frames_with_look": .integer(record.sentWithLook),
            "frames_by_look": .object(
                record.sentByStyle.sorted { $0.key < $1.key }.map { .init($0.key, .integer($0.value)) }),
            "codec": .optional(statistics.codec), "width": .optional(statistics.size?.width),
            "height": .optional(statistics.size?.height),
            "bitrate_in": .optional(record.isOpen ? statistics.receivedBitrate : nil),
            "bitrate_out": .optional(record.isOpen ? statistics.sentBitrate : nil),
            "rtt_ms": .milliseconds(statistics.roundTripTime), "delay_ms": .milliseconds(statistics.delay),
            "ticks": .integer(record.tickCount), "media_failure": .optional(record.mediaFailure),
            "tracks": .array(record.tracks.map(JSONValue.string)),
            "simulcast": .array(record.simulcastStreams.map(JSONValue.string)),
            "muted_tracks": .integer(record.room.mutedTracks.count), "viewers": .integer(record.viewerCount),
            "room_requested": .bool(record.requestedRoom), "room_joins": .integer(record.room.joinCount),
            "room_single_joins": .integer(record.room.singleJoinCount),
            "room_resumes": .integer(record.room.resumeCount), "room_offers": .integer(record.room.offerCount),
            "pixel_latency": .bool(request.wantsLatencyMarker), "resolution": short(request.resolution),
            "speed": short(request.speed), "user_agent": short(request.userAgent),
            "server_codec": short(request.serverCodec), "query_items": .array(items),
            "maximum_duration_s": .optional(request.maximumDuration),
            "refused_by_limit": .bool(request.limitAnswer != nil), "watches": short(request.viewedSessionID),
        ])
    }

    private func short(_ text: String?) -> JSONValue { .optional(text?.printable(limit: 256)) }
}
