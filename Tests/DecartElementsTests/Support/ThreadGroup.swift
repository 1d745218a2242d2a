import Dispatch

/// Runs a body on several threads at the same time.
enum ThreadGroup {
    static func run(threads: Int, rounds: Int, _ body: @escaping @Sendable (_ thread: Int, _ round: Int) -> Void) {
        let group = DispatchGroup()
        for thread in 0..<threads {
            DispatchQueue(label: "thread-group").async(group: group) {
                for round in 0..<rounds { body(thread, round) }
            }
        }
        group.wait()
    }
}
