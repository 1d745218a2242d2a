package import NIOCore
import NIOPosix

/// The one network thread of all control channels of the process. Not NIO's own shared group: that one starts a thread
/// per core, and loading the plugin must start none. Made by the first channel, never stopped.
package enum EventLoops {
    package static let group: any EventLoopGroup = MultiThreadedEventLoopGroup(numberOfThreads: 1)
}
