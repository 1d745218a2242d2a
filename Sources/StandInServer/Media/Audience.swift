// Who watches one session: each painted picture goes to all of them, and all hear of its end. A viewer that is slow or gone
// holds nobody up.
import GStreamerKit
import NIOCore
import Synchronization

/// Sent through the pipeline of a viewer's connection: the session has ended.
struct SessionEnded: Sendable {}

package final class Audience: Sendable {
    /// Where a viewer's pictures go; must not wait.
    protocol Screen: AnyObject, Sendable {
        /// - Parameter number: of the caps; another one has other caps.
        func show(_ picture: Buffer, _ caps: Caps, number: Int)
    }

    private struct State {
        var screens: [ObjectIdentifier: any Screen] = [:]
        var channels: [ObjectIdentifier: any Channel] = [:]
        var caps: (caps: Caps, number: Int)?
    }
    private let state = Mutex(State())

    package init() {}

    /// Viewers whose connection is open.
    var count: Int { state.withLock { $0.channels.count } }

    // MARK: Pictures (the thread that paints)

    func set(caps: Caps) {
        state.withLock { $0.caps = (caps, ($0.caps?.number ?? 0) &+ 1) }
    }

    func show(_ picture: Buffer) {
        let (screens, caps) = state.withLock { (Array($0.screens.values), $0.caps) }
        guard let caps else { return }
        for screen in screens {
            if let copy = picture.copyOfMetadata() { screen.show(copy, caps.caps, number: caps.number) }
        }
    }

    func add(_ screen: any Screen) { state.withLock { $0.screens[ObjectIdentifier(screen)] = screen } }
    func remove(_ screen: any Screen) { state.withLock { $0.screens[ObjectIdentifier(screen)] = nil } }

    // MARK: Connections

    func enter(_ channel: any Channel) { state.withLock { $0.channels[ObjectIdentifier(channel)] = channel } }
    func leave(_ channel: any Channel) { state.withLock { $0.channels[ObjectIdentifier(channel)] = nil } }

    func tell(_ notice: RoomNotice) {
        for channel in state.withLock({ Array($0.channels.values) }) {
            channel.pipeline.fireUserInboundEventTriggered(notice)
        }
    }

    /// The session has ended. Who comes later watches its next media, should it get any.
    func end() {
        let channels = state.withLock { state in
            // Others remember what a session did; nothing of its media is to live on for that.
            state.caps = nil
            return Array(state.channels.values)
        }
        for channel in channels {
            channel.pipeline.fireUserInboundEventTriggered(SessionEnded())
        }
    }
}

/// The audiences of the sessions that are there.
final class AudienceBoard: Sendable {
    private let audiences = Mutex<[String: Audience]>([:])

    func add(_ audience: Audience, of sessionID: String) { audiences.withLock { $0[sessionID] = audience } }

    func remove(_ sessionID: String) {
        let audience = audiences.withLock { $0.removeValue(forKey: sessionID) }
        audience?.end()
    }

    func audience(of sessionID: String) -> Audience? { audiences.withLock { $0[sessionID] } }
}
