import Glibc
import StandInServer
import Testing

@Suite(.timeLimit(.minutes(1)))
struct FaultParsingTests {
    /// All fault names, written out, so that names in users' scripts do not change by accident.
    static let names =
        [
            "refuse", "rst_on_accept", "tls_bad_expired", "tls_bad_host", "tls_bad_ca", "tls_bad_old", "http_200html",
            "http_400", "http_402", "http_410", "http_422", "error_type",
            "http_301", "http_302", "http_401", "http_403", "http_404", "http_429", "http_500", "http_503", "http_511",
            "slow_tls", "slow_upgrade", "slow_frame", "endless_headers", "no_first_message", "error_permanent",
            "error_transient", "error_decoy401", "queue_n", "queue_forever", "queue_jump", "drop_tcp_at_T", "no_pong",
            "mute", "ping_flood", "ack_none", "ack_late", "ack_twice", "ack_wrong", "ack_fail", "bad_json_depth",
            "bad_json_size", "bad_json_utf8", "bad_json_type", "ws_rsv", "ws_opcode", "ws_masked", "ws_fragments",
            "ws_huge_len", "sdp_bad", "sdp_huge", "sdp_no_fingerprint", "sdp_bad_fingerprint", "sdp_other_codec",
            "ice_none", "ice_late", "ice_bad_candidate", "ice_tcp_only", "dtls_silent", "dtls_flood",
            "dtls_old_version", "media_silent", "media_freeze", "media_garbage", "media_replay", "media_wrong_ssrc",
            "media_caps_change", "room_info_slow", "room_token_refused", "room_ice_none", "room_leave_disconnect",
            "room_leave_resume", "room_leave_reconnect", "room_mute", "room_leave_migrate", "room_cut",
            "room_resume_refused", "room_resume_silent", "room_restart", "room_pause", "room_mute_output",
            "room_second_track", "room_second_server", "room_codec_change", "room_alert_first", "room_migrate",
            "session_limit_at_T",
            "generation_ended",
            "generation_restart",
        ]
        + ["1001", "1008", "1011", "1012", "1013", "4001"].flatMap { code in
            ["join", "connected", "T"].map { "close_\(code)_at_\($0)" }
        }

    @Test func theCatalogueIsComplete() {
        #expect(Set(FaultKind.all.map(\.name)) == Set(Self.names))
        #expect(FaultKind.all.count == Self.names.count)
    }

    @Test(arguments: names) func everyNameIsReadAndExplained(name: String) throws {
        let fault = try Fault(parsing: name)
        #expect(fault.kind.name == name)
        #expect(fault.description == name)
        #expect(!fault.kind.summary.isEmpty)
        #expect(FaultKind.help.split(separator: "\n").contains { $0.hasPrefix("  \(name) ") })
    }

    @Test func theManualListsEveryFault() throws {
        let path = #filePath.split(separator: "/").dropLast(4).map { "/" + $0 }.joined() + "/docs/FAULTS.md"
        let file = try #require(fopen(path, "r"), "\(path)")
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        bytes.removeLast(bytes.count - fread(&bytes, 1, bytes.count, file))
        let text = String(decoding: bytes, as: UTF8.self)
        // Close codes share one row per family.
        for kind in FaultKind.all where !kind.name.hasPrefix("close_") {
            #expect(text.contains("`\(kind.name)`"), "\(kind.name)")
        }
        for moment in ["join", "connected", "T"] { #expect(text.contains("`close_CODE_at_\(moment)`")) }
    }

    @Test(
        arguments: [
            ("error_type:reason=no,type=removed_model,at=1", "error_type:at=1,reason=no,type=removed_model"),
            ("close_1011_at_T:at=2.5,count=3,after=2", "close_1011_at_T:at=2.5,count=3,after=2"),
            (" generation_ended : ", nil),
            ("generation_ended:reason=no more = credits", "generation_ended:reason=no more = credits"),
            ("generation_restart:output=new_mid,delay=8,at=4", "generation_restart:at=4,delay=8,output=new_mid"),
            ("  queue_n:n=12,interval=0.5  ", "queue_n:n=12,interval=0.5"),
            ("ack_late:skip=1,delay=16", "ack_late:delay=16,skip=1"), ("refuse:for=2,at=1", "refuse:at=1,for=2"),
            ("ws_huge_len:n=9223372036854775807", "ws_huge_len:n=9223372036854775807"),
            ("media_freeze:at=0", "media_freeze:at=0"), ("no_pong:count=1", "no_pong:count=1"),
        ] as [(String, String?)])
    func whatIsWrittenIsRead(spec: String, canonical: String?) throws {
        guard let canonical else {
            #expect(throws: StandInError.self) { try Fault(parsing: spec) }
            return
        }
        let fault = try Fault(parsing: spec)
        #expect(fault.description == canonical)
        #expect(try Fault(parsing: fault.description) == fault)
    }

    @Test(arguments: [
        ("", "needs a name"), (":at=1", "needs a name"), ("nonsense", "no fault \"nonsense\""),
        ("close_1011", "close_1011_at_join"), ("close_1099_at_T", "no fault"), ("Refuse", "no fault"),
        ("close_1011_at_T:", "no key=value"), ("close_1011_at_T:at", "no key=value"),
        ("close_1011_at_T:at=", "number of seconds"), ("close_1011_at_T:at=-1", "number of seconds"),
        ("close_1011_at_T:at=nan", "number of seconds"), ("close_1011_at_T:at=inf", "number of seconds"),
        ("close_1011_at_T:at=1e9", "number of seconds"), ("close_1011_at_T:at=1,at=2", "comes twice"),
        ("close_1011_at_T:when=1", "no key \"when\""), ("close_1011_at_join:at=1", "no key \"at\""),
        ("refuse:count=2", "no key \"count\""), ("no_pong:count=0", "from 1"), ("no_pong:after=x", "a number"),
        ("no_pong:count=99999999999999999999999", "a number"), ("queue_n:n=1.5", "a number"),
        ("error_type:type=no_such_word", "model_not_available_for_trial"), ("error_permanent:type=x", "no key"),
        ("generation_ended:reason=\u{7}", "printable"), ("generation_ended:output=same", "no key \"output\""),
        ("generation_restart:output=elsewhere", "same, new_ssrc, offer, new_mid, republish, new_sid"),
        ("generation_ended:reason=" + String(repeating: "x", count: 124), "123"),
        (String(repeating: "x", count: 2000), "1024 bytes"), ("no_pong:\u{1b}[31m=1", "no key \"?[31m\""),
    ])
    func mistakesAreExplained(spec: String, excerpt: String) {
        #expect {
            try Fault(parsing: spec)
        } throws: { error in
            let text = String(describing: error)
            return text.contains(excerpt) && !text.unicodeScalars.contains { $0.value < 0x20 }
        }
    }

    @Test func aPlanSkipsCommentsAndIsBounded() throws {
        let plan = try FaultPlan(parsing: ["# a comment", "", "no_pong", "  http_500:count=1 "])
        #expect(plan.faults.map(\.kind.name) == ["no_pong", "http_500"])
        #expect(throws: StandInError.self) {
            try FaultPlan(parsing: [String](repeating: "no_pong", count: FaultPlan.maximumCount + 1))
        }
    }

    @Test(
        arguments: [
            ("http_500", [500, 500, 500, 500]), ("http_500:count=2", [500, 500, nil, nil]),
            ("http_500:after=3", [nil, nil, 500, 500]), ("http_500:after=2,count=1", [nil, 500, nil, nil]),
        ] as [(String, [UInt?])])
    func connectionsAreCounted(spec: String, outcomes: [UInt?]) throws {
        try withFaults(spec) { server in
            // Twice, because a new plan starts its count again.
            for _ in 0..<2 {
                for status in outcomes {
                    if let status {
                        #expect(throws: TestClient.Refused(status: status)) { try server.connect() }
                    } else {
                        try server.connect().close()
                    }
                }
                try server.server.setFaults([try Fault(parsing: spec)])
            }
        }
    }
}
