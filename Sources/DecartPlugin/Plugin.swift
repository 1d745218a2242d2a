// The plugin's entry point, and nothing else: the one symbol that the library exports. Loading starts no thread and
// opens nothing; everything else happens when an element is made.
import DecartElements
import GStreamerKit

/// Named after the library, libgstdecart.so, as GStreamer looks it up.
@_cdecl("gst_plugin_decart_get_desc")
public func decartPluginDescriptor() -> UnsafeRawPointer { Plugin.descriptor }

private enum Plugin {
    // The project has no public address: the origin is what GStreamer's own build says where there is none.
    // nonisolated(unsafe): the descriptor is written once, here, and only read afterwards.
    nonisolated(unsafe) static let descriptor = PluginDescription(
        name: "decart", summary: "Decart realtime AI video over WebRTC", version: DecartElements.version,
        license: "Apache 2.0", source: "gst-decart", package: "gst-decart", origin: "Unknown package origin"
    ).makeDescriptor { plugin in
        guard let handle = PluginHandle(plugin) else { return 0 }
        return DecartElements.register(in: handle) ? 1 : 0
    }
}
