import CGIO
import CGStreamer
import GStreamerKit

/// The objects that exist, by GType: of the types that the "leaks" tracer of this process is told to follow, without those
/// that GStreamer itself keeps. Other threads may release objects meanwhile: no object is touched, and the tracer removes
/// one from its list, under the lock of this listing, before the memory is freed.
package func liveObjects() -> [String: Int] {
    var counts: [String: Int] = [:]
    let tracers = gst_tracing_get_active_tracers()
    defer { g_list_free_full(tracers) { gst_object_unref($0) } }
    var item = tracers
    while let node = item {
        defer { item = node.pointee.next }
        guard let tracer = node.pointee.data else { continue }
        let type = kit_type_of_instance(tracer)
        let signal = g_signal_lookup("get-live-objects", type)
        guard signal != 0 else { continue }
        var instance = GValue()
        g_value_init(&instance, type)
        g_value_set_object(&instance, tracer)
        var result = GValue()
        g_value_init(&result, kit_type_structure())
        g_signal_emitv(&instance, signal, 0, &result)
        if let structure = gst_value_get_structure(&result),
            let list = gst_structure_get_value(structure, "live-objects-list")
        {
            for index in 0..<gst_value_list_get_size(list) {
                guard let entry = gst_value_list_get_value(list, index).flatMap({ gst_value_get_structure($0) }),
                    let object = gst_structure_get_value(entry, "object")
                else { continue }
                counts[String(cString: g_type_name(kit_type_of_value(object))), default: 0] += 1
            }
        }
        // GStreamer 1.22 stores the objects without references of their own: freeing the structure would drop ours.
        g_value_unset(&instance)
    }
    return counts
}
