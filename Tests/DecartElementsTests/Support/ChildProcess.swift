import Glibc

enum ChildProcess {
    struct Failure: Error {}

    /// Runs a program to its end with `environment` added to this process's variables; stdout and stderr go to the file
    /// `output`.
    /// - Returns: its exit status, or 128 plus the number of the signal that ended it.
    static func run(_ arguments: [String], environment: [String: String], output: String) throws -> Int {
        var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
        let variables: [UnsafeMutablePointer<CChar>?] = environment.map { strdup("\($0)=\($1)") }
        defer { for pointer in pointers + variables { free(pointer) } }
        var inherited: [UnsafeMutablePointer<CChar>?] = []
        var next = environ
        while let entry = next.pointee {
            inherited.append(entry)
            next += 1
        }
        pointers.append(nil)
        let all = variables + inherited + [nil]
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)
        var child = pid_t()
        var status: Int32 = 0
        guard posix_spawn(&child, arguments[0], &actions, nil, pointers, all) == 0, waitpid(child, &status, 0) == child
        else { throw Failure() }
        let signal = Int(status & 0x7f)
        return signal == 0 ? Int(status >> 8 & 0xff) : 128 + signal
    }
}
