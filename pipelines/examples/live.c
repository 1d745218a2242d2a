/* A live view that takes commands while it runs. live.py and live.swift are the same program.
 *
 *     source pipelines/env.sh
 *     cc -o live pipelines/examples/live.c $(pkg-config --cflags --libs gstreamer-1.0)
 *     ./live [--sink DESCRIPTION] SOURCE-DESCRIPTION
 *
 *     ./live 'v4l2src ! decarttransform name=decart prompt="Lego World"'
 *
 * One element of the source must be named decart. Commands, one a line on standard input:
 *
 *     prompt TEXT    send a prompt, and print whether the service accepted it
 *     camera         switch to the other camera (decartsrc)
 *     record FILE    record to a WebM file from the next frame on; a recording that runs ends with the frame before
 *     stop           end the recording
 *     query          print the state, the position, the number of frames and the current recording
 *     quit           end the stream and with it the recording (so do Ctrl-C and the end of the input)
 */
#include <glib-unix.h>
#include <gst/gst.h>
#include <stdio.h>
#include <string.h>

/* The view may be late, but must not block the recording: its queue drops frames, the recording's queue drops none. */
#define VIEW "queue leaky=downstream max-size-buffers=0 max-size-bytes=0 max-size-time=1000000000"
/* async=false: a sink that joins a playing pipeline must not make it wait for the sink's first frame. */
#define RECORDER \
    "queue max-size-buffers=0 max-size-bytes=0 max-size-time=3000000000 ! videoconvert" \
    " ! vp8enc deadline=1 cpu-used=8 target-bitrate=0 keyframe-max-dist=60 ! webmmux offset-to-zero=true" \
    " ! filesink name=file async=false"

/* One file, and the branch of the tee that writes it. Frames are counted from 1, over all recordings. */
typedef struct {
    char *path;
    guint64 first, last; /* 0 = none */
    GstElement *bin;
    GstPad *sink; /* of the bin */
    GstPad *pad;  /* of the tee */
} Recording;

typedef struct {
    GstElement *pipeline, *decart, *tee;
    GMainLoop *loop;
    char *state;
    gboolean failed;
    GList *recordings;
    GMutex lock; /* guards the rest, which the streaming thread uses too */
    guint64 frames;
    Recording *wanted;  /* the recording that the commands requested; NULL = no recording */
    Recording *current; /* the one that gets the frames */
} Live;

static void switch_recording(Live *live) {
    Recording *old = live->current;
    live->current = live->wanted;
    if (live->current) {
        live->current->first = live->frames + 1;
        live->current->pad = gst_element_request_pad_simple(live->tee, "src_%u");
        gst_pad_link(live->current->pad, live->current->sink);
    }
    if (old) {
        gst_pad_unlink(old->pad, old->sink);
        gst_element_release_request_pad(live->tee, old->pad);
        gst_clear_object(&old->pad);
        /* Its queue passes this on behind the last frame: the file is completed while the stream goes on. */
        gst_pad_send_event(old->sink, gst_event_new_eos());
    }
}

/* Called on the streaming thread, before any branch gets the frame. A switch here loses no frame. */
static GstPadProbeReturn on_frame(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
    Live *live = data;
    g_mutex_lock(&live->lock);
    if (live->wanted != live->current) switch_recording(live);
    live->frames++;
    if (live->current) live->current->last = live->frames;
    g_mutex_unlock(&live->lock);
    return GST_PAD_PROBE_OK;
}

/* The functions below run on the main thread. */

static void finished(Live *live, Recording *recording) {
    live->recordings = g_list_remove(live->recordings, recording);
    if (recording->first)
        g_print("recorded %s: frames %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT " in all\n",
                recording->path, recording->first, recording->last, recording->last - recording->first + 1);
    else
        g_print("recorded %s: no frame\n", recording->path);
    gst_element_set_state(recording->bin, GST_STATE_NULL);
    gst_bin_remove(GST_BIN(live->pipeline), recording->bin);
    /* A recording that ends with the stream is still the current one, and linked. */
    g_mutex_lock(&live->lock);
    if (live->current == recording) live->current = live->wanted = NULL;
    g_mutex_unlock(&live->lock);
    gst_clear_object(&recording->pad);
    gst_object_unref(recording->sink);
    gst_object_unref(recording->bin);
    g_free(recording->path);
    g_free(recording);
}

static void want(Live *live, Recording *recording) {
    g_mutex_lock(&live->lock);
    Recording *unused = live->wanted != live->current ? live->wanted : NULL;
    live->wanted = recording;
    g_mutex_unlock(&live->lock);
    if (unused) finished(live, unused);
}

static void record(Live *live, const char *path) {
    for (GList *each = live->recordings; each; each = each->next) {
        if (strcmp(((Recording *)each->data)->path, path) == 0) {
            g_print("record: %s is being written\n", path);
            return;
        }
    }
    GstElement *bin = gst_object_ref_sink(gst_parse_bin_from_description(RECORDER, TRUE, NULL));
    /* The location is a property, not part of the description, because a file name may contain any character. */
    GstElement *file = gst_bin_get_by_name(GST_BIN(bin), "file");
    g_object_set(file, "location", path, NULL);
    gst_object_unref(file);
    /* A pipeline posts EOS only once all of its sinks have; message-forward makes this bin post its own. */
    g_object_set(bin, "message-forward", TRUE, NULL);
    /* Opens the file before the branch is part of the pipeline, which a failure therefore does not stop. */
    if (gst_element_set_state(bin, GST_STATE_READY) == GST_STATE_CHANGE_FAILURE) {
        g_print("record: cannot write %s\n", path);
        gst_element_set_state(bin, GST_STATE_NULL);
        gst_object_unref(bin);
        return;
    }
    Recording *recording = g_new0(Recording, 1);
    recording->path = g_strdup(path);
    recording->bin = bin;
    recording->sink = gst_element_get_static_pad(bin, "sink");
    live->recordings = g_list_append(live->recordings, recording);
    gst_bin_add(GST_BIN(live->pipeline), bin);
    gst_element_sync_state_with_parent(bin);
    want(live, recording);
}

static void prompt(Live *live, const char *text) {
    guint64 request = 0;
    /* The element posts the result as the message decart-prompt-result with the same id. */
    g_signal_emit_by_name(live->decart, "set-prompt", text, FALSE, &request);
    if (!request) g_print("prompt: not sent\n");
}

static void camera(Live *live) {
    if (!g_signal_lookup("switch-camera", G_OBJECT_TYPE(live->decart))) {
        g_print("camera: this element has none to switch\n");
        return;
    }
    char *device = NULL;
    g_signal_emit_by_name(live->decart, "switch-camera", &device);
    g_print("camera: %s\n", device ? device : "there is no other");
    g_free(device);
}

static void query(Live *live) {
    gint64 position = 0;
    gst_element_query_position(live->pipeline, GST_FORMAT_TIME, &position);
    GValue state = G_VALUE_INIT;
    g_object_get_property(G_OBJECT(live->decart), "connection-state", &state);
    GEnumValue *name = g_enum_get_value(g_type_class_peek(G_VALUE_TYPE(&state)), g_value_get_enum(&state));
    g_mutex_lock(&live->lock);
    guint64 frames = live->frames;
    char *path = g_strdup(live->current ? live->current->path : "off");
    g_mutex_unlock(&live->lock);
    g_print("query: %s, position %.2f s, %" G_GUINT64_FORMAT " frames, recording %s\n", name->value_nick,
            (double)position / GST_SECOND, frames, path);
    g_free(path);
    g_value_unset(&state);
}

static gboolean time_is_up(gpointer data) {
    g_main_loop_quit(((Live *)data)->loop);
    return G_SOURCE_REMOVE;
}

static gboolean quit(gpointer data) {
    Live *live = data;
    /* EOS, not a change of state: it follows the last frame through the pipeline, and files are completed. */
    gst_element_send_event(live->pipeline, gst_event_new_eos());
    g_timeout_add_seconds(10, time_is_up, live);
    return G_SOURCE_REMOVE;
}

static gboolean on_input(GIOChannel *input, GIOCondition condition, gpointer data) {
    Live *live = data;
    char *line = NULL;
    gsize end = 0;
    if (g_io_channel_read_line(input, &line, NULL, &end, NULL) != G_IO_STATUS_NORMAL) return quit(live);
    line[end] = '\0';
    char *rest = strchr(line, ' ');
    if (rest) *rest++ = '\0';
    if (strcmp(line, "record") == 0 && rest)
        record(live, rest);
    else if (strcmp(line, "stop") == 0)
        want(live, NULL);
    else if (strcmp(line, "prompt") == 0)
        prompt(live, rest ? rest : "");
    else if (strcmp(line, "camera") == 0)
        camera(live);
    else if (strcmp(line, "query") == 0)
        query(live);
    else if (strcmp(line, "quit") == 0)
        quit(live);
    else if (*line)
        g_print("commands: prompt TEXT, camera, record FILE, stop, query, quit\n");
    g_free(line);
    return G_SOURCE_CONTINUE;
}

static void on_element_message(Live *live, GstObject *source, const GstStructure *structure) {
    if (gst_structure_has_name(structure, "decart-state")) {
        /* The message has more fields than the state, and is posted whenever any of them changes. */
        const char *state = gst_structure_get_string(structure, "state");
        if (g_strcmp0(state, live->state) == 0) return;
        g_free(live->state);
        live->state = g_strdup(state);
        g_print("state: %s\n", state);
    } else if (gst_structure_has_name(structure, "decart-prompt-result")) {
        gboolean accepted = FALSE;
        guint milliseconds = 0;
        gst_structure_get_boolean(structure, "accepted", &accepted);
        gst_structure_get_uint(structure, "milliseconds", &milliseconds);
        if (accepted)
            g_print("prompt: accepted after %u ms: %s\n", milliseconds, gst_structure_get_string(structure, "text"));
        else
            g_print("prompt: refused: %s\n", gst_structure_get_string(structure, "error"));
    } else if (gst_structure_has_name(structure, "GstBinForwarded")) {
        GstMessage *inner = NULL;
        gst_structure_get(structure, "message", GST_TYPE_MESSAGE, &inner, NULL);
        for (GList *each = live->recordings; each && GST_MESSAGE_TYPE(inner) == GST_MESSAGE_EOS; each = each->next) {
            Recording *recording = each->data;
            if (GST_OBJECT(recording->bin) != source) continue;
            finished(live, recording);
            break;
        }
        gst_message_unref(inner);
    }
}

static gboolean on_message(GstBus *bus, GstMessage *message, gpointer data) {
    Live *live = data;
    GError *error = NULL;
    switch (GST_MESSAGE_TYPE(message)) {
        case GST_MESSAGE_EOS: g_main_loop_quit(live->loop); break;
        case GST_MESSAGE_ERROR:
            gst_message_parse_error(message, &error, NULL);
            g_print("error: %s\n", error->message);
            live->failed = TRUE;
            g_main_loop_quit(live->loop);
            break;
        case GST_MESSAGE_WARNING:
            gst_message_parse_warning(message, &error, NULL);
            g_print("warning: %s\n", error->message);
            break;
        case GST_MESSAGE_ELEMENT:
            on_element_message(live, GST_MESSAGE_SRC(message), gst_message_get_structure(message));
            break;
        default: break;
    }
    g_clear_error(&error);
    return G_SOURCE_CONTINUE;
}

int main(int argc, char **argv) {
    /* With line buffering, a reader behind a pipe gets each line at once. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    gst_init(&argc, &argv);
    const char *sink = "videoconvert ! autovideosink";
    if (argc == 4 && strcmp(argv[1], "--sink") == 0) {
        sink = argv[2];
    } else if (argc != 2) {
        g_printerr("usage: live [--sink DESCRIPTION] SOURCE-DESCRIPTION\n");
        return 2;
    }
    Live live = {0};
    GError *error = NULL;
    char *text = g_strdup_printf("%s ! tee name=outputs outputs. ! " VIEW " ! %s", argv[argc - 1], sink);
    live.pipeline = gst_parse_launch(text, &error);
    g_free(text);
    if (error || !(live.decart = gst_bin_get_by_name(GST_BIN(live.pipeline), "decart"))) {
        g_printerr("live: %s\n", error ? error->message : "no element is named decart");
        return 1;
    }
    live.tee = gst_bin_get_by_name(GST_BIN(live.pipeline), "outputs");
    live.loop = g_main_loop_new(NULL, FALSE);
    g_mutex_init(&live.lock);

    GstPad *pad = gst_element_get_static_pad(live.tee, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, on_frame, &live, NULL);
    gst_object_unref(pad);
    GstBus *bus = gst_element_get_bus(live.pipeline);
    gst_bus_add_watch(bus, on_message, &live);
    GIOChannel *input = g_io_channel_unix_new(0);
    g_io_add_watch(input, G_IO_IN | G_IO_HUP, on_input, &live);
    g_unix_signal_add(SIGINT, quit, &live);

    gst_element_set_state(live.pipeline, GST_STATE_PLAYING);
    g_main_loop_run(live.loop);
    gst_element_set_state(live.pipeline, GST_STATE_NULL);

    gst_bus_remove_watch(bus);
    gst_object_unref(bus);
    gst_object_unref(live.tee);
    gst_object_unref(live.decart);
    gst_object_unref(live.pipeline);
    return live.failed ? 1 : 0;
}
