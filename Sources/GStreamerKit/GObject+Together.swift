internal import CGStreamer

extension GObject {
    /// Holds `notify` back until as many thaws have come.
    package func freezeNotifications() { g_object_freeze_notify(object) }
    package func thawNotifications() { g_object_thaw_notify(object) }

    /// Sets several properties at once, as one g_object_set does: their changes are told together.
    package func set(together values: [(name: String, value: GValueBox)]) {
        g_object_freeze_notify(object)
        defer { g_object_thaw_notify(object) }
        for (name, value) in values { set(name, value) }
    }
}
