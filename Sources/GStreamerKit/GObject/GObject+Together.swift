internal import CGStreamer

extension GObject {
    /// Delays `notify` until as many calls of `thawNotifications` follow.
    package func freezeNotifications() { g_object_freeze_notify(object) }
    package func thawNotifications() { g_object_thaw_notify(object) }

    /// Sets several properties and notifies their changes together, as one g_object_set does.
    package func set(together values: [(name: String, value: GValueBox)]) {
        g_object_freeze_notify(object)
        defer { g_object_thaw_notify(object) }
        for (name, value) in values { set(name, value) }
    }
}
