package import GStreamerKit
import ICE
import MirrorElement

extension DecartElements {
    /// Discards all that `transport=auto` has learnt about services.
    package static func forgetServices() { KnownServices.transports.forgetAll() }

    /// Adds all element factories to `plugin`, or to the process if it is nil.
    @discardableResult
    package static func register(in plugin: PluginHandle?) -> Bool {
        LogCategories.register()
        // The paths of pipelines/env.sh and of the Debian package have a link to the other plugin with a `mirror` there.
        // After an upgrade of that plugin, GStreamer would register only its element again, in place of this one.
        plugin?.follow(folder: "../plugins-bad", file: "libgstgeometrictransform.so")
        let mirror = RegisteredElementClass(Mirror.elementClass)
        return RegisteredElementClass(DecartTransform.elementClass).addFactory("decarttransform", to: plugin)
            // gst-plugins-bad has a `mirror` too; the second name is unambiguous. In GStreamer's own folder the order of
            // the directory would decide which plugin's `mirror` an application gets.
            && (plugin?.isAmongGStreamersOwn == true || mirror.addFactory("mirror", to: plugin))
            && mirror.addFactory("decartmirror", to: plugin)
            && RegisteredElementClass(DecartSource.elementClass).addFactory("decartsrc", to: plugin)
    }
}
