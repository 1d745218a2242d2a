import Glibc

/// Starts a detached thread for blocking work. On Swift's or Dispatch's threads, it would keep other work waiting.
package func detachThread(_ body: @escaping @Sendable () -> Void) {
    final class Box {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    let data = Unmanaged.passRetained(Box(body)).toOpaque()
    let status = pthread_create(
        &thread, nil,
        { data in
            if let data { Unmanaged<Box>.fromOpaque(data).takeRetainedValue().body() }
            return nil
        }, data)
    if status == 0 { pthread_detach(thread) } else { Unmanaged<Box>.fromOpaque(data).release() }
}
