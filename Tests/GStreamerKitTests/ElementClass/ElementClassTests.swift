import Dispatch
import GStreamerKit
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1)))
struct ElementClassTests {
    private func make() throws -> (Element, Specimen) {
        let element = Element(class: Specimen.registered)
        return (element, try #require(element.implementation as? Specimen))
    }

    @Test func registeringAgainGivesTheSameClass() throws {
        _ = Specimen.registered
        _ = RegisteredElementClass(Specimen.elementClass)
        #expect(GStreamerRuntime.hasElement("decartspecimen"))
        #expect(try Element(factory: "decartspecimen").implementation is Specimen)
        #expect(try Element(factory: "fakesink").implementation == nil)
    }

    @Test func propertiesGoInAndComeOut() throws {
        let (element, _) = try make()
        #expect(element.int("count") == 7)
        element.set("count", 42)
        element.set("text", "hello")
        element.set("flag", true)
        element.set("size", Int(UInt32.max))
        element.set("mode", "two")
        element.set("list", GValueBox(strings: ["a", "b"]))
        #expect(element.int("count") == 42)
        #expect(element.string("text") == "hello")
        #expect(element.bool("flag") == true)
        #expect(element.int("size") == Int(UInt32.max))
        #expect(element.int("mode") == 2)
        #expect(element.value("list")?.strings == ["a", "b"])
    }

    @Test func accessIsKept() throws {
        let (element, specimen) = try make()
        element.set("secret", "s3cr3t")
        #expect(specimen.seen.withLock { $0.texts["secret"] } == "s3cr3t")
        #expect(element.value("secret") == nil)
        #expect(element.string("fixed") == "always this")
        #expect(element.value("no-such-property") == nil)
        element.set("no-such-property", "ignored")
    }

    /// One g_object_set call with several properties causes one notification.
    @Test func severalAtOnceAreOneChange() throws {
        _ = Specimen.registered
        let pipeline = try Pipeline(description: "decartspecimen name=it fakesrc ! fakesink")
        let specimen = try #require(pipeline.child(named: "it")?.implementation as? Specimen)
        specimen.seen.withLock { $0.changes = [] }
        // g_object_set is variadic and not importable; it freezes and thaws notifications in the same way.
        pipeline.child(named: "it")?.withFrozenNotifications {
            $0.set("text", "x")
            $0.set("count", 3)
            $0.set("flag", true)
        }
        let changes = specimen.seen.withLock { $0.changes }
        #expect(changes.count == 1)
        #expect(changes.first.map(Set.init) == ["text", "count", "flag"])
    }

    @Test func settingOneIsOneChangeToo() throws {
        let (element, specimen) = try make()
        let order = Mutex<[String]>([])
        element.connect("notify::text") { [weak specimen] _ in
            let reported = specimen?.seen.withLock { $0.changes.contains(["text"]) } ?? false
            order.withLock { $0.append(reported ? "after" : "before") }
            return nil
        }
        element.set("text", "x")
        #expect(specimen.seen.withLock { $0.changes.filter { $0.contains("text") } } == [["text"]])
        #expect(order.withLock { $0 } == ["after"])
    }

    @Test func signals() throws {
        let (element, specimen) = try make()
        let received = Mutex<[String]>([])
        let handler = element.connect("reported") { arguments in
            received.withLock { $0.append("\(arguments.first?.int ?? -1) \(arguments.last?.string ?? "")") }
            return nil
        }
        element.emit("reported", [GValueBox(int: 5), GValueBox("five")])
        element.disconnect(handler)
        element.emit("reported", [GValueBox(int: 6), GValueBox("six")])
        #expect(received.withLock { $0 } == ["5 five"])
        #expect(element.emit("double", [GValueBox(int: 21)])?.int == 42)
        #expect(specimen.seen.withLock { $0.actions } == ["double"])
        // A wrong number of arguments or an unknown signal returns nil.
        #expect(element.emit("double", []) == nil)
        #expect(element.emit("no-such-signal") == nil)
    }

    @Test func statesChainUp() throws {
        let (element, specimen) = try make()
        #expect(element.setState(.ready) == .success)
        #expect(element.state() == .ready)
        element.setState(.null)
        #expect(specimen.seen.withLock { $0.states } == [.nullToReady, .readyToNull])
        specimen.seen.withLock { $0.refusesReady = true }
        #expect(element.setState(.ready) == .failure)
        #expect(element.state() == .null)
    }

    @Test func eventsReachTheImplementationOrTheParentClass() throws {
        let (element, specimen) = try make()
        #expect(element.send(Event.forceKeyUnitUpstream()))
        #expect(specimen.seen.withLock { $0.events } == 1)
        #expect(!element.send(Event.latency(5)) || specimen.seen.withLock { $0.events } == 1)
    }

    @Test func anImplementationEndsWithItsElement() throws {
        weak var gone: Specimen?
        do {
            let (element, specimen) = try make()
            gone = specimen
            element.set("text", "x")
            element.connect("reported") { _ in nil }
            #expect(gone != nil)
        }
        #expect(gone == nil)
        do {
            let pipeline = try Pipeline(description: "decartspecimen name=it fakesrc ! fakesink")
            gone = pipeline.child(named: "it")?.implementation as? Specimen
            #expect(gone != nil)
            pipeline.setState(.paused)
            pipeline.setState(.null)
        }
        #expect(gone == nil)
    }

    /// An application that forgets to stop an element must not leave threads that use freed memory.
    @Test(arguments: [ElementState.ready, .paused, .playing], [false, true])
    func anElementThatRunsIsStoppedBeforeItEnds(state: ElementState, isInPipeline: Bool) throws {
        let states = Mutex<[StateChange]>([])
        let gone = DispatchSemaphore(value: 0)
        do {
            let (element, specimen) = try make()
            specimen.seen.withLock {
                $0.onEnd = { seen in
                    states.withLock { $0 = seen }
                    gone.signal()
                }
            }
            let pipeline = isInPipeline ? Pipeline() : nil
            pipeline?.add(element)
            #expect(element.setState(state) != .failure)
            #expect(element.state() == state)
        }
        #expect(gone.wait(timeout: .now() + 20) == .success)
        #expect(states.withLock(\.last) == .readyToNull)
    }
}
