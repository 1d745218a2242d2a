/* A plugin for check_examples.py with two cameras, which produce test patterns; GstDeviceMonitor finds them. */
#include <gst/gst.h>

#define CAPS "video/x-raw,width=320,height=176,framerate=20/1"

typedef struct {
    GstDevice parent;
} Camera;
typedef struct {
    GstDeviceClass parent;
} CameraClass;
G_DEFINE_TYPE(Camera, camera, GST_TYPE_DEVICE)

static GstElement *create_element(GstDevice *device, const gchar *name) {
    return gst_parse_bin_from_description("videotestsrc is-live=true ! " CAPS, TRUE, NULL);
}
static void camera_class_init(CameraClass *type) { GST_DEVICE_CLASS(type)->create_element = create_element; }
static void camera_init(Camera *camera) {}

static GstDevice *make_camera(const char *position) {
    char *id = g_strdup_printf("virtual:%s", position);
    GstStructure *properties = gst_structure_new("virtual-camera", "device.path", G_TYPE_STRING, id, "device.position",
                                                 G_TYPE_STRING, position, NULL);
    GstCaps *caps = gst_caps_from_string(CAPS);
    GstDevice *device = g_object_new(camera_get_type(), "display-name", position, "device-class", "Video/Source", "caps",
                                     caps, "properties", properties, NULL);
    gst_caps_unref(caps);
    gst_structure_free(properties);
    g_free(id);
    return device;
}

typedef struct {
    GstDeviceProvider parent;
} Provider;
typedef struct {
    GstDeviceProviderClass parent;
} ProviderClass;
G_DEFINE_TYPE(Provider, provider, GST_TYPE_DEVICE_PROVIDER)

static GList *probe(GstDeviceProvider *provider) {
    GList *front = g_list_append(NULL, gst_object_ref_sink(make_camera("front")));
    return g_list_append(front, gst_object_ref_sink(make_camera("back")));
}
static gboolean start(GstDeviceProvider *provider) {
    gst_device_provider_device_add(provider, make_camera("front"));
    gst_device_provider_device_add(provider, make_camera("back"));
    return TRUE;
}
static void provider_class_init(ProviderClass *type) {
    GstDeviceProviderClass *provider = GST_DEVICE_PROVIDER_CLASS(type);
    gst_device_provider_class_set_static_metadata(provider, "Virtual cameras", "Video/Source",
                                                  "Test patterns as cameras", "The gst-decart authors");
    provider->probe = probe;
    provider->start = start;
}
static void provider_init(Provider *provider) {}

static gboolean plugin_init(GstPlugin *plugin) {
    return gst_device_provider_register(plugin, "virtualcameras", 256, provider_get_type());
}

#define PACKAGE "gst-decart"
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, virtualcameras, "Two cameras for a test", plugin_init, "1.0",
                  "Apache 2.0", "gst-decart", "Unknown package origin")
