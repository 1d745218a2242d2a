// Parts of GStreamer that Swift cannot import: function-like macros and varargs. Nothing here calls into Swift.
#ifndef CGSTREAMER_SHIMS_H
#define CGSTREAMER_SHIMS_H

#define GST_USE_UNSTABLE_API
#include <gio/gio.h>
#include <gst/gst.h>
#include <gst/base/base.h>
#include <gst/rtp/rtp.h>
#include <gst/sdp/sdp.h>
#include <gst/video/video.h>
#include <gst/video/gstvideofilter.h>
#include <gst/video/gstvideometa.h>
#include <gst/video/navigation.h>

// The GTypes are macros with casts.
static inline GType kit_type_boolean(void) { return G_TYPE_BOOLEAN; }
static inline GType kit_type_int(void) { return G_TYPE_INT; }
static inline GType kit_type_uint(void) { return G_TYPE_UINT; }
static inline GType kit_type_int64(void) { return G_TYPE_INT64; }
static inline GType kit_type_uint64(void) { return G_TYPE_UINT64; }
static inline GType kit_type_double(void) { return G_TYPE_DOUBLE; }
static inline GType kit_type_string(void) { return G_TYPE_STRING; }
static inline GType kit_type_param_string(void) { return G_TYPE_PARAM_STRING; }
static inline GType kit_type_none(void) { return G_TYPE_NONE; }
static inline GType kit_type_enum(void) { return G_TYPE_ENUM; }
static inline GType kit_type_flags(void) { return G_TYPE_FLAGS; }
static inline GType kit_type_value_array(void) { return GST_TYPE_ARRAY; }
static inline GType kit_type_structure(void) { return GST_TYPE_STRUCTURE; }
static inline GType kit_type_caps(void) { return GST_TYPE_CAPS; }
static inline GType kit_type_buffer(void) { return GST_TYPE_BUFFER; }
static inline GType kit_type_element(void) { return GST_TYPE_ELEMENT; }
// The kinds of factories are macros with casts.
static inline GstElementFactoryListType kit_video_decoder_type(void) {
    return GST_ELEMENT_FACTORY_TYPE_DECODER | GST_ELEMENT_FACTORY_TYPE_MEDIA_VIDEO;
}
static inline GType kit_type_of_instance(gpointer instance) { return G_TYPE_FROM_INSTANCE(instance); }
static inline GType kit_type_of_value(const GValue *value) { return G_VALUE_TYPE(value); }
static inline gboolean kit_instance_is(gpointer instance, GType type) {
    return G_TYPE_CHECK_INSTANCE_TYPE(instance, type);
}
static inline gboolean kit_value_holds(const GValue *value, GType type) { return G_VALUE_HOLDS(value, type); }

// The threshold check of the debug log is a macro, so that disabled levels cost almost nothing.
static inline gboolean kit_debug_enabled(GstDebugCategory *category, GstDebugLevel level) {
    return level <= GST_LEVEL_MAX && level <= _gst_debug_min && level <= gst_debug_category_get_threshold(category);
}

static inline guint8 *kit_video_frame_plane(const GstVideoFrame *frame, guint plane) {
    return (guint8 *)GST_VIDEO_FRAME_PLANE_DATA(frame, plane);
}
static inline gint kit_video_frame_stride(const GstVideoFrame *frame, guint plane) {
    return GST_VIDEO_FRAME_PLANE_STRIDE(frame, plane);
}
// Bytes mapped before a plane's first byte, and from it on. A frame with a GstVideoMeta is mapped plane by plane.
static inline void kit_video_frame_room(const GstVideoFrame *frame, guint plane, gsize *before, gsize *after) {
    const GstMapInfo *map = plane < GST_VIDEO_MAX_PLANES ? &frame->map[frame->meta ? plane : 0] : NULL;
    const guint8 *data = map ? frame->data[plane] : NULL;
    gboolean inside = data && map->data && data >= map->data && data <= map->data + map->size;
    *before = inside ? (gsize)(data - map->data) : 0;
    *after = inside ? map->size - *before : 0;
}
// True if a frame lies in memory as GStreamer lays it out without a GstVideoMeta.
static inline gboolean kit_video_meta_is_default(const GstVideoMeta *meta, const GstVideoInfo *info) {
    for (guint plane = 0; plane < meta->n_planes && plane < GST_VIDEO_MAX_PLANES; plane++) {
        if (meta->offset[plane] != info->offset[plane] || meta->stride[plane] != info->stride[plane]) return FALSE;
    }
    return TRUE;
}
// Size that a buffer needs for a frame of this format; 0: its GstVideoMeta does not fit the format. The last row of a
// plane may lack the padding of its stride. Tiled formats have no rows, so only their default size is known.
static inline gsize kit_video_frame_bytes(const GstVideoInfo *info, const GstVideoMeta *meta) {
    if (!meta || GST_VIDEO_FORMAT_INFO_IS_TILED(info->finfo)) return info->size;
    if (meta->width < (guint)info->width || meta->height < (guint)info->height ||
        meta->n_planes < GST_VIDEO_INFO_N_PLANES(info))
        return 0;
    gsize end = 0;
    for (guint plane = 0; plane < GST_VIDEO_INFO_N_PLANES(info); plane++) {
        gint component[GST_VIDEO_MAX_COMPONENTS];
        gst_video_format_info_component(info->finfo, plane, component);
        gint rows = component[0] < 0 ? info->height
            : GST_VIDEO_FORMAT_INFO_SCALE_HEIGHT(info->finfo, component[0], info->height);
        gint row = MIN(meta->stride[plane], info->stride[plane]);
        gint pixels = component[0] < 0 ? 0
            : GST_VIDEO_INFO_COMP_WIDTH(info, component[0]) * GST_VIDEO_INFO_COMP_PSTRIDE(info, component[0]);
        if (row <= 0 || row < pixels || rows <= 0) return 0;
        gsize last = meta->offset[plane] + (gsize)meta->stride[plane] * (gsize)(rows - 1) + (gsize)row;
        end = MAX(end, last);
    }
    return end;
}
// Copies flags, times, and those metas that say nothing about memory, size or pixels.
static inline gboolean kit_copy_plain_meta(GstBuffer *from, GstMeta **meta, gpointer to) {
    const gchar *const *tags = gst_meta_api_type_get_tags((*meta)->info->api);
    GstMetaTransformCopy copy = {FALSE, 0, (gsize)-1};
    if ((!tags || !tags[0]) && (*meta)->info->transform_func)
        (*meta)->info->transform_func((GstBuffer *)to, *meta, from, _gst_meta_transform_copy, &copy);
    return TRUE;
}
static inline void kit_buffer_copy_description(GstBuffer *to, GstBuffer *from) {
    gst_buffer_copy_into(to, from, (GstBufferCopyFlags)(GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS), 0, -1);
    gst_buffer_foreach_meta(from, kit_copy_plain_meta, to);
}
static inline void kit_pad_stream_lock(GstPad *pad) { GST_PAD_STREAM_LOCK(pad); }
static inline void kit_pad_stream_unlock(GstPad *pad) { GST_PAD_STREAM_UNLOCK(pad); }
static inline GstFlowReturn kit_flow_dropped(void) { return GST_BASE_TRANSFORM_FLOW_DROPPED; }

// Reference counting of mini objects is inline in C and takes the base struct.
static inline gpointer kit_mini_object_ref(gpointer object) { return gst_mini_object_ref(GST_MINI_OBJECT_CAST(object)); }
static inline void kit_mini_object_unref(gpointer object) { gst_mini_object_unref(GST_MINI_OBJECT_CAST(object)); }

static inline GstBuffer *kit_buffer_make_writable(GstBuffer *buffer) { return gst_buffer_make_writable(buffer); }
static inline gboolean kit_buffer_is_writable(GstBuffer *buffer) {
    return gst_buffer_is_writable(buffer) && gst_buffer_is_all_memory_writable(buffer);
}
// Bytes that follow a buffer through encoders, decoders and converters, in a custom meta; the structure's setter and
// getter take varargs. Registering a name twice is an error, and another copy of this code may have done it.
static inline void kit_attachment_register(const gchar *name) {
    static const gchar *tags[] = { NULL };
    if (!gst_meta_get_info(name)) gst_meta_register_custom(name, tags, NULL, NULL, NULL);
}
static inline void kit_buffer_attach(GstBuffer *buffer, const gchar *name, gconstpointer data, gsize size) {
    GstCustomMeta *meta = gst_buffer_add_custom_meta(buffer, name);
    if (!meta) return;
    GBytes *bytes = g_bytes_new(data, size);
    gst_structure_set(gst_custom_meta_get_structure(meta), "bytes", G_TYPE_BYTES, bytes, NULL);
    g_bytes_unref(bytes);
}
// Returns a reference, or NULL.
static inline GBytes *kit_buffer_attachment(GstBuffer *buffer, const gchar *name) {
    GstCustomMeta *meta = gst_buffer_get_custom_meta(buffer, name);
    GBytes *bytes = NULL;
    if (meta) gst_structure_get(gst_custom_meta_get_structure(meta), "bytes", G_TYPE_BYTES, &bytes, NULL);
    return bytes;
}
static inline void kit_buffer_detach(GstBuffer *buffer, const gchar *name) {
    GstCustomMeta *meta = gst_buffer_get_custom_meta(buffer, name);
    if (meta) gst_buffer_remove_meta(buffer, &meta->meta);
}
static inline GstBuffer *kit_buffer_prefix(GstBuffer *buffer, gsize size) {
    return gst_buffer_copy_region(buffer, GST_BUFFER_COPY_ALL, 0, size);
}

// Swift sees tag lists as opaque pointers. The last function returns the event without image-orientation, or NULL if no
// tag is left.
static inline gchar *kit_event_orientation(GstEvent *event) {
    GstTagList *list = NULL;
    gchar *text = NULL;
    gst_event_parse_tag(event, &list);
    return list && gst_tag_list_get_string(list, GST_TAG_IMAGE_ORIENTATION, &text) ? text : NULL;
}
static inline GstTagScope kit_event_tag_scope(GstEvent *event) {
    GstTagList *list = NULL;
    gst_event_parse_tag(event, &list);
    return list ? gst_tag_list_get_scope(list) : GST_TAG_SCOPE_STREAM;
}
static inline GstEvent *kit_event_without_orientation(GstEvent *event) {
    GstTagList *list = NULL;
    gst_event_parse_tag(event, &list);
    if (!list) return NULL;
    list = gst_tag_list_copy(list);
    gst_tag_list_remove_tag(list, GST_TAG_IMAGE_ORIENTATION);
    if (gst_tag_list_n_tags(list) == 0) { gst_tag_list_unref(list); return NULL; }
    return gst_event_new_tag(list);
}

// gst_sdp_message_new takes an uninitialised out pointer.
static inline GstSDPMessage *kit_sdp_message_new(void) {
    GstSDPMessage *message = NULL;
    return gst_sdp_message_new(&message) == GST_SDP_OK ? message : NULL;
}
#endif
