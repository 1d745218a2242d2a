package import GStreamerKit
import MirrorElement

/// Registers the package's elements, for the plugin library and for programs that link the elements directly. One
/// process must not do both: the GType names would clash.
package enum DecartElements {
    package static let version = "0.1.0"
    static let userAgent = "gst-decart/\(version) lang/swift os/linux"

    /// Discards all that `transport=auto` has learnt about services.
    package static func forgetServices() { TransportCache.shared.forgetAll() }

    /// Adds all element factories to `plugin`, or to the process if it is nil.
    @discardableResult
    package static func register(in plugin: PluginHandle?) -> Bool {
        let mirror = RegisteredElementClass(Mirror.elementClass)
        return RegisteredElementClass(DecartTransform.elementClass).addFactory("decarttransform", to: plugin)
            // gst-plugins-bad has a `mirror` too; the second name is unambiguous.
            && mirror.addFactory("mirror", to: plugin) && mirror.addFactory("decartmirror", to: plugin)
            && RegisteredElementClass(DecartSource.elementClass).addFactory("decartsrc", to: plugin)
    }
}
