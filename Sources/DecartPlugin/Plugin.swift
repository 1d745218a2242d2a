// The plugin's entry point and nothing else. Loading starts no thread and
// opens nothing; everything else happens when an element is created.
import DecartElements
import GStreamerKit

/// GStreamer derives this name from the library's, libgstdecart.so.
@_cdecl("gst_plugin_decart_get_desc")
public func decartPluginDescriptor() -> UnsafeRawPointer { Plugin.descriptor }

private enum Plugin {
    // The project has no public address, so the origin is the text that GStreamer's own build uses in that case.
    // nonisolated(unsafe): the descriptor is written once, here, and only read afterwards.
    nonisolated(unsafe) static let descriptor = PluginDescriptor.make(
        name: "decart", summary: "Decart realtime AI video over WebRTC", version: DecartElements.version,
        license: "Apache 2.0", source: "gst-decart", package: "gst-decart \(DecartElements.build)",
        origin: "Unknown package origin", releaseDate: DecartElements.releaseDate
    ) { plugin in
        guard let handle = PluginHandle(plugin) else { return 0 }
        return DecartElements.register(in: handle) ? 1 : 0
    }
}
