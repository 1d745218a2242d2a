import DecartProtocol

/// Encodes session records. Prompts are only counted unless the user wants them, because they are private.
struct SessionsJSON {
    let showsPrompts: Bool

    func text(_ records: [SessionRecord]) -> String {
        JSONValue.fields(["sessions": .array(records.map(value))]).text
    }

    func value(_ record: SessionRecord) -> JSONValue {
        .object(identity(record) + state(record) + control(record) + media(record) + request(record))
    }

    private func fields(_ fields: KeyValuePairs<String, JSONValue>) -> [JSONValue.Field] {
        fields.map { JSONValue.Field(key: $0.key, value: $0.value) }
    }

    private func identity(_ record: SessionRecord) -> [JSONValue.Field] {
        fields([
            "number": .number(record.number), "id": .string(record.sessionID), "model": .string(record.request.model),
        ])
    }

    private func state(_ record: SessionRecord) -> [JSONValue.Field] {
        fields([
            "state": .string(record.state.rawValue), "age_ms": .milliseconds(record.age),
            "transport": .optional(record.transport?.rawValue),
            "look": .optional(record.look?.style.name), "look_text": .optional(record.look?.description),
        ])
    }

    private func control(_ record: SessionRecord) -> [JSONValue.Field] {
        fields([
            "prompts": .number(record.promptCount), "images": .number(record.imageCount),
            "passthroughs": .number(record.passthroughCount), "refusals": .number(record.refusalCount),
            "malformed": .number(record.malformedCount), "unknown": .number(record.unknownCount),
            "offers": .number(record.offerCount), "answers": .number(record.answerCount),
            "offered_before_state": .bool(record.offeredBeforeState),
            "candidates": .number(record.remoteCandidateCount),
            "end_of_candidates": .bool(record.receivedEndOfCandidates),
        ]) + (showsPrompts ? fields(["prompt_texts": .array(record.prompts.map(JSONValue.string))]) : [])
    }

    private func media(_ record: SessionRecord) -> [JSONValue.Field] {
        let figures = record.media
        return fields([
            "frames_in": .number(record.frameCount), "frames_out": .number(record.sentFrameCount),
            "frames_untransformed": .number(record.rawFrameCount), "frames_with_look": .number(record.sentWithLook),
            "frames_by_look": .object(
                record.sentByStyle.sorted { $0.key < $1.key }.map { .init(key: $0.key, value: .number($0.value)) }),
            "codec": .optional(figures.codec), "width": .optional(figures.size?.width),
            "height": .optional(figures.size?.height),
            "bitrate_in": .optional(record.isOpen ? figures.receivedBitrate : nil),
            "bitrate_out": .optional(record.isOpen ? figures.sentBitrate : nil),
            "rtt_ms": .milliseconds(figures.roundTripTime), "delay_ms": .milliseconds(figures.delay),
            "ticks": .number(record.tickCount), "media_failure": .optional(record.mediaFailure),
            "tracks": .array(record.tracks.map(JSONValue.string)),
            "simulcast": .array(record.simulcastStreams.map(JSONValue.string)),
            "muted_tracks": .number(record.mutedTracks.count), "viewers": .number(record.viewerCount),
            "room_requested": .bool(record.askedForRoom), "room_joins": .number(record.roomJoinCount),
            "room_single_joins": .number(record.singleJoinCount), "room_resumes": .number(record.roomResumeCount),
            "room_offers": .number(record.roomOfferCount),
        ])
    }

    private func request(_ record: SessionRecord) -> [JSONValue.Field] {
        let request = record.request
        // Names only: a value of an unknown item may be a secret.
        let items = request.otherItems.keys.sorted().prefix(32).map { JSONValue.string(LogText.clean($0)) }
        return fields([
            "pixel_latency": .bool(request.wantsLatencyMarker), "resolution": short(request.resolution),
            "speed": short(request.speed), "user_agent": short(request.userAgent), "query_items": .array(items),
            "maximum_duration_s": .optional(request.maximumDuration),
            "refused_by_limit": .bool(request.limitAnswer != nil), "watches": short(request.viewedSessionID),
        ])
    }

    private func short(_ text: String?) -> JSONValue { text.map { .string($0.printable(limit: 256)) } ?? .null }
}
