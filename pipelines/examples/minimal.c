/* minimal.py in C: cc -o minimal minimal.c $(pkg-config --cflags --libs gstreamer-1.0) */
#include <gst/gst.h>

#define PIPELINE "videotestsrc is-live=true ! decarttransform name=decart prompt=Lego ! videoconvert ! autovideosink"

static gboolean on_line(GIOChannel *input, GIOCondition condition, gpointer pipeline) {
    char *line = NULL;
    if (g_io_channel_read_line(input, &line, NULL, NULL, NULL) != G_IO_STATUS_NORMAL)
        return !gst_element_send_event(pipeline, gst_event_new_eos());
    gst_child_proxy_set(pipeline, "decart::prompt", g_strstrip(line), NULL);
    g_free(line);
    return G_SOURCE_CONTINUE;
}

static gboolean on_message(GstBus *bus, GstMessage *message, gpointer loop) {
    const GstStructure *fields = gst_message_get_structure(message);
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        GError *error = NULL;
        gst_message_parse_error(message, &error, NULL);
        g_print("%s\n", error->message);
        g_error_free(error);
    } else if (fields && gst_structure_has_name(fields, "decart-prompt-result")) {
        const char *error = gst_structure_get_string(fields, "error");
        g_print("%s\n", error ? error : "accepted");
    }
    if (GST_MESSAGE_TYPE(message) & (GST_MESSAGE_ERROR | GST_MESSAGE_EOS)) g_main_loop_quit(loop);
    return G_SOURCE_CONTINUE;
}

int main(int argc, char **argv) {
    gst_init(&argc, &argv);
    GstElement *pipeline = gst_parse_launch(argc > 1 ? argv[1] : PIPELINE, NULL);
    GMainLoop *loop = g_main_loop_new(NULL, FALSE);
    gst_bus_add_watch(gst_element_get_bus(pipeline), on_message, loop);
    g_io_add_watch(g_io_channel_unix_new(0), G_IO_IN | G_IO_HUP, on_line, pipeline);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    g_main_loop_run(loop);
    gst_element_set_state(pipeline, GST_STATE_NULL);
}
