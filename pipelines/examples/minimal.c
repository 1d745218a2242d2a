/* minimal.py in C: cc -o minimal minimal.c $(pkg-config --cflags --libs gstreamer-1.0) */
#include <gst/gst.h>

#define PIPELINE "videotestsrc is-live=true ! decarttransform name=decart prompt=Lego ! videoconvert ! autovideosink"

static int status;
static GstElement *pipeline;

static gboolean on_line(GIOChannel *input, GIOCondition condition, gpointer decart) {
    char *line = NULL;
    if (g_io_channel_read_line(input, &line, NULL, NULL, NULL) != G_IO_STATUS_NORMAL)
        return !gst_element_send_event(pipeline, gst_event_new_eos());
    g_object_set(decart, "prompt", g_strstrip(line), NULL);
    g_free(line);
    return G_SOURCE_CONTINUE;
}

static gboolean on_message(GstBus *bus, GstMessage *message, gpointer loop) {
    const GstStructure *fields = gst_message_get_structure(message);
    GError *error = NULL;
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        gst_message_parse_error(message, &error, NULL);
        status = 1;
    } else if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING) {
        gst_message_parse_warning(message, &error, NULL);
    } else if (fields && gst_structure_has_name(fields, "decart-prompt-result")) {
        const char *refusal = gst_structure_get_string(fields, "error");
        g_print("%s\n", refusal ? refusal : "accepted");
    }
    if (error) g_printerr("%s\n", error->message);
    g_clear_error(&error);
    if (GST_MESSAGE_TYPE(message) & (GST_MESSAGE_ERROR | GST_MESSAGE_EOS)) g_main_loop_quit(loop);
    return G_SOURCE_CONTINUE;
}

int main(int argc, char **argv) {
    GError *error = NULL;
    gst_init(&argc, &argv);
    if (argc > 1 && g_str_equal(argv[1], "--help")) return g_print("minimal [PIPELINE]\n"), 0;
    pipeline = gst_parse_launch(argc > 1 ? argv[1] : PIPELINE, &error);
    const char *hint = error && g_str_has_prefix(error->message, "no element \"decart") ? " (package gstreamer1.0-decart)" : "";
    if (error) return g_printerr("%s%s\n", error->message, hint), 1;
    GstElement *decart = GST_IS_BIN(pipeline) ? gst_bin_get_by_name(GST_BIN(pipeline), "decart") : NULL;
    if (!decart || !g_object_class_find_property(G_OBJECT_GET_CLASS(decart), "prompt"))
        return g_printerr("no decarttransform of the pipeline is named decart: write name=decart\n"), 1;
    GMainLoop *loop = g_main_loop_new(NULL, FALSE);
    gst_bus_add_watch(gst_element_get_bus(pipeline), on_message, loop);
    g_io_add_watch(g_io_channel_unix_new(0), G_IO_IN | G_IO_HUP, on_line, decart);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    g_main_loop_run(loop);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    return status;
}
