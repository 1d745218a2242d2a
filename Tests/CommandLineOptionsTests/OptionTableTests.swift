import Testing

import CommandLineOptions

/// An option of each kind.
private struct Sample: Equatable {
    var isQuiet = false
    var name: String?
    var model = "small"
    var file: RawArgument?
    var count = 3
    var limit: Int?
    var seconds = 1.5
    var codec = Codec.vp8
    var servers: [String] = []
    var codecs: [Codec] = []

    enum Codec: String, CaseIterable, OptionValue { case h264, vp8 }

    static func table(
        discussion: String = "", options: [CommandOption<Sample>] = [], positional: CommandOption<Sample>? = nil,
        others: OtherOptions<Sample>? = nil
    ) -> OptionTable<Sample> {
        OptionTable(
            "sample", abstract: "A program.", discussion: discussion,
            options: [
                .flag("quiet", short: "q", \.isQuiet, "Print nothing."),
                .value("name", "text", \.name, "A name."),
                .value("model", "text", \.model, "A model."),
                .value("file", "path", \.file, "A file."),
                .number("count", "number", \.count, in: 1...9, "How many."),
                .number("limit", "number", \.limit, in: 1...9, "A limit."),
                .number("seconds", "number", \.seconds, in: 0.5...60, "A time."),
                .value("codec", "name", \.codec, "A codec."),
                .list("server", "url", \.servers, "A server."),
                .list("codecs", "name", \.codecs, "Codecs."),
                .page("version", "Show the version.") { "sample 1\n" },
            ] + options,
            positional: positional, others: others)
    }

    static func parse(_ arguments: String..., table: OptionTable<Sample> = table()) throws -> Sample {
        try #require(values(table.parse(arguments.map { RawArgument($0) }, into: Sample())))
    }
}

private func values(_ outcome: OptionTable<Sample>.Outcome) -> Sample? {
    guard case .values(let values) = outcome else { return nil }
    return values
}

private func text(_ arguments: String..., table: OptionTable<Sample> = Sample.table()) throws -> String? {
    guard case .text(let text) = try table.parse(arguments.map { RawArgument($0) }, into: Sample()) else { return nil }
    return text
}

private func raw(_ bytes: [UInt8]) -> RawArgument {
    RawArgument(bytes: (bytes + [0]).map { CChar(bitPattern: $0) })
}

@Suite("Tables of options") struct OptionTableTests {
    @Test func defaultsStayWithoutArguments() throws {
        #expect(try Sample.parse() == Sample())
    }

    @Test func valuesFollowOrAreJoinedByAnEqualsSign() throws {
        let sample = try Sample.parse(
            "--name", "a b", "--model=large", "--count", "7", "--limit=9", "--seconds=0.5", "--codec", "h264", "-q")
        #expect(sample.name == "a b")
        #expect(sample.model == "large")
        #expect(sample.count == 7)
        #expect(sample.limit == 9)
        #expect(sample.seconds == 0.5)
        #expect(sample.codec == .h264)
        #expect(sample.isQuiet)
    }

    @Test func aValueMayBeEmptyOrHaveAnEqualsSignOrBeginWithADash() throws {
        #expect(try Sample.parse("--model=").model.isEmpty)
        #expect(try Sample.parse("--model", "").model.isEmpty)
        #expect(try Sample.parse("--model=a=b").model == "a=b")
        #expect(try Sample.parse("--model", "-x").model == "-x")
        #expect(try Sample.parse("--model", "--quieter").model == "--quieter")
    }

    @Test func listsCollectAndOtherOptionsTakeTheLastValue() throws {
        let sample = try Sample.parse(
            "--server", "a", "--server=b", "--codecs=vp8", "--codecs", "h264", "--count=1", "--count=2", "-q", "--quiet"
        )
        #expect(sample.servers == ["a", "b"])
        #expect(sample.codecs == [.vp8, .h264])
        #expect(sample.count == 2)
        #expect(sample.isQuiet)
    }

    @Test(arguments: [
        (["--unknown"], "Unknown option '--unknown'."), (["--unknown=secret"], "Unknown option '--unknown'."),
        (["-x"], "Unknown option '-x'."), (["-qx"], "Unknown option '-x'."),
        (["--nam", "x"], "Unknown option '--nam'. Is '--name' meant?"),
        (["--cuont=2"], "Unknown option '--cuont'. Is '--count' meant?"),
        (["wss://example.org"], "Unexpected argument 'wss://example.org'."),
        (["--name"], "Missing argument for --name."), (["--name", "--quiet"], "Missing value for '--name <text>'."),
        (["--name", "--model=x"], "Missing value for '--name <text>'."),
        (["--quiet=yes"], "The option '--quiet' takes no value."), (["extra"], "Unexpected argument 'extra'."),
        (["--", "--quiet"], "Unexpected argument '--quiet'."), (["-"], "Unexpected argument '-'."),
        ([""], "Unexpected argument ''."),
        (["--count", "x"], "The value 'x' is invalid for '--count <number>': expected a number from 1 to 9."),
        (["--count=10"], "The value '10' is invalid for '--count <number>': expected a number from 1 to 9."),
        (["--count", "-1"], "The value '-1' is invalid for '--count <number>': expected a number from 1 to 9."),
        (["--count="], "The value '' is invalid for '--count <number>': expected a number from 1 to 9."),
        (["--count=1.0"], "The value '1.0' is invalid for '--count <number>': expected a number from 1 to 9."),
        (
            ["--count=99999999999999999999"],
            "The value '99999999999999999999' is invalid for '--count <number>': expected a number from 1 to 9."
        ),
        (["--limit=0"], "The value '0' is invalid for '--limit <number>': expected a number from 1 to 9."),
        (["--seconds=nan"], "The value 'nan' is invalid for '--seconds <number>': expected a number from 0.5 to 60."),
        (["--seconds=inf"], "The value 'inf' is invalid for '--seconds <number>': expected a number from 0.5 to 60."),
        (["--codec=av1"], "The value 'av1' is invalid for '--codec <name>': expected one of h264, vp8."),
    ]) func aWrongCommandLineIsASentence(_ arguments: [String], _ sentence: String) {
        #expect(throws: UsageError(sentence)) {
            try Sample.table().parse(arguments.map { RawArgument($0) }, into: Sample())
        }
    }

    @Test func bytesThatAreNotUTF8AreAnErrorUnlessTheyNameAFile() throws {
        let name = raw([0x61, 0xFF])
        #expect(name.text == nil)
        #expect(values(try Sample.table().parse([RawArgument("--file"), name], into: Sample()))?.file == name)
        let joined = raw(Array("--file=a".utf8) + [0xFF])
        #expect(values(try Sample.table().parse([joined], into: Sample()))?.file == name)
        #expect(throws: UsageError("The value of '--name <text>' is not UTF-8.")) {
            try Sample.table().parse([RawArgument("--name"), name], into: Sample())
        }
        #expect(throws: UsageError("The value of '--count <number>' is not UTF-8.")) {
            try Sample.table().parse([RawArgument("--count"), name], into: Sample())
        }
        #expect(throws: UsageError("The argument 'a\u{FFFD}' is not UTF-8.")) {
            try Sample.table().parse([name], into: Sample())
        }
    }

    @Test func anOptionMayBeRequired() throws {
        let table = Sample.table(options: [.value("key", "key", \.model, isRequired: true, "A key.")])
        #expect(throws: UsageError("Missing option '--key <key>'.")) { try Sample.parse("-q", table: table) }
        #expect(try Sample.parse("--key", "k", table: table).model == "k")
        #expect(table.usage == "sample --key <key> [<options>]")
    }

    @Test func aPositionalArgumentMayStandAnywhere() throws {
        let table = Sample.table(positional: .argument("subject", \.codec, "What it is about."))
        #expect(try Sample.parse("h264", "-q", table: table).codec == .h264)
        #expect(try Sample.parse("-q", "h264", table: table).codec == .h264)
        #expect(try Sample.parse("-q", "--", "h264", table: table).codec == .h264)
        #expect(throws: UsageError("Missing argument '<subject>'.")) { try Sample.parse("-q", table: table) }
        #expect(throws: UsageError("Unexpected argument 'vp8'.")) { try Sample.parse("h264", "vp8", table: table) }
        #expect(throws: UsageError("The value 'x' is invalid for '<subject>': expected one of h264, vp8.")) {
            try Sample.parse("x", table: table)
        }
    }

    @Test func theOptionsOfALibraryAreItsOwn() throws {
        struct Failed: Error, CustomStringConvertible { var description: String { "No such level" } }
        let others = OtherOptions<Sample>(
            prefix: "--gst-",
            take: { sample, arguments in
                if arguments.contains("--gst-wrong") { throw Failed() }
                return sample.isQuiet ? arguments : arguments.filter { !$0.hasPrefix("--gst-") && $0 != "3" }
            }, page: .page("help-gst", "Show more.") { "more\n" })
        let table = Sample.table(others: others)
        #expect(try Sample.parse("--gst-debug=3", "--count=2", table: table).count == 2)
        #expect(try Sample.parse("--gst-debug", "3", "--count=2", table: table).count == 2)
        #expect(throws: UsageError("Unknown option '--gst-debug'.")) {
            try Sample.parse("--gst-debug=3", "-q", table: table)
        }
        #expect(throws: UsageError("Unexpected argument 'x'.")) { try Sample.parse("--gst-debug=3", "x", table: table) }
        #expect(throws: UsageError("Unexpected argument 'x'.")) {
            try Sample.parse("--gst-debug=3", "--", "x", table: table)
        }
        #expect(throws: UsageError("No such level.")) { try Sample.parse("--gst-wrong", table: table) }
        #expect(throws: UsageError("Unknown option '--gst-debug'.")) { try Sample.parse("--gst-debug=3") }
        #expect(try text("--help-gst", table: table) == "more\n")
    }

    @Test func gStreamersOptionsHaveNoEffectWhereItIsNotUsed() throws {
        let table = Sample.table(others: .gstreamer { _ in false })
        #expect(try Sample.parse("--gst-debug", "3", "--gst-debug-no-color", "-q", table: table).isQuiet)
        #expect(throws: UsageError("Unknown option '--unknown'.")) {
            try Sample.parse("--gst-debug-no-color", "--unknown", table: table)
        }
        #expect(throws: UsageError("Unexpected argument 'x'.")) { try Sample.parse("--gst-debug=3", "x", table: table) }
        #expect(try text("--help-gst", table: table)?.contains("--gst-plugin-path") == true)
    }
}

@Suite("Help of a table") struct HelpTests {
    @Test func helpAndOtherPagesWinOverErrors() throws {
        #expect(try text("--version") == "sample 1\n")
        #expect(try text("--unknown", "--count=x", "--version") == "sample 1\n")
        #expect(try text("-h") == text("--help", "--name"))
        #expect(try text("-qh") == text("--help"))
        #expect(try text("--", "--help", table: Sample.table(positional: .argument("x", \.model, ""))) == nil)
    }

    @Test func helpHasTheTextTheUsageAndEachOption() throws {
        let help = try #require(
            try text("--help", table: Sample.table(discussion: "It works.\n\nEXAMPLE\n  sample --name x")))
        #expect(
            help == """
                OVERVIEW: A program.

                It works.

                EXAMPLE
                  sample --name x

                USAGE: sample [<options>]

                OPTIONS:
                  -q, --quiet             Print nothing.
                  --name <text>           A name.
                  --model <text>          A model. (default: small)
                  --file <path>           A file.
                  --count <number>        How many. (default: 3)
                  --limit <number>        A limit.
                  --seconds <number>      A time. (default: 1.5)
                  --codec <name>          A codec. (default: vp8)
                  --server <url>          A server.
                  --codecs <name>         Codecs.
                  --version               Show the version.
                  -h, --help              Show help information.

                """)
    }

    @Test func rowsAreWrappedBelowTheirText() {
        let column = String(repeating: " ", count: 26)
        let text = String(repeating: "word ", count: 12)
        #expect(
            HelpText.rows([("--short", text), ("--long-enough-for-a-line", "text")], width: 80) == """
                  --short                 \(text.prefix(54))
                \(column)word
                  --long-enough-for-a-line
                \(column)text
                """)
    }

    @Test func linesAreWrappedBelowTheirSecondColumn() {
        let words = String(repeating: "word ", count: 20).dropLast()
        #expect(HelpText.wrap("short  line", width: 80) == "short  line")
        #expect(
            HelpText.wrap("\(words)", width: 80) == """
                word word word word word word word word word word word word word word word word
                word word word word
                """)
        #expect(
            HelpText.wrap("  term  \(words)\n", width: 80) == """
                  term  word word word word word word word word word word word word word word
                        word word word word word word

                """)
        #expect(
            HelpText.wrap("  \(words)", width: 80) == """
                  word word word word word word word word word word word word word word word
                  word word word word word
                """)
        let long = String(repeating: "x", count: 90)
        #expect(HelpText.wrap("\(long) x", width: 80) == "\(long)\nx")
    }

    @Test func aGroupNamesItsCommandsButNotThoseOfItsOwn() {
        struct Quick: Command {
            static var table: OptionTable<Quick> { OptionTable("group quick", abstract: "Does it.", options: []) }
            func run() {}
        }
        let group = CommandGroup(
            "group", abstract: "A program.", commands: [.init(Quick.self), .init(Quick.self, isHidden: true)])
        #expect(
            group.help == """
                OVERVIEW: A program.

                USAGE: group [<subcommand>] [<options>]

                SUBCOMMANDS:
                  quick                   Does it.

                  See 'group <subcommand> --help' for its options.

                """)
    }
}
