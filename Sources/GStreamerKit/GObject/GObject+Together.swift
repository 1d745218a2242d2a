internal import CGStreamer

extension GObject {
    /// Delays `notify` until as many calls of `thawNotifications` follow.
    public func freezeNotifications() { g_object_freeze_notify(object) }
    /// Emits what was held back since `freezeNotifications`.
    public func thawNotifications() { g_object_thaw_notify(object) }

    /// Delays `notify` until `body` returns, so that its changes are notified together, as in one g_object_set.
    public func withFrozenNotifications(_ body: (GObject) -> Void) {
        freezeNotifications()
        body(self)
        thawNotifications()
    }
}
