package import GStreamerKit

/// What the package registers, shared by the plugin library and by programs that link the elements directly. A process
/// must never do both: the type names would clash.
package enum DecartElements {
    package static let version = "0.1.0"
    static let userAgent = "gst-decart/\(version) lang/swift os/linux"

    /// What `transport=auto` has found out about services.
    package static func forgetServices() { ServiceMemory.shared.forgetAll() }

    /// Adds all factories to a plugin, or to the process when there is none.
    @discardableResult
    package static func register(in plugin: PluginHandle?) -> Bool {
        let mirror = RegisteredElementClass(Mirror.elementClass)
        return RegisteredElementClass(DecartTransform.elementClass).addFactory("decarttransform", to: plugin)
            // plugins-bad has a `mirror` too; the second name is ours alone.
            && mirror.addFactory("mirror", to: plugin) && mirror.addFactory("decartmirror", to: plugin)
            && RegisteredElementClass(DecartSource.elementClass).addFactory("decartsrc", to: plugin)
    }
}
