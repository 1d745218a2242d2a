/* A manager of sessions: one process adds, prompts and removes them at random, as a media server does, and prints what
 * the process holds.
 *
 *     source pipelines/env.sh
 *     cc -o manager pipelines/examples/manager.c $(pkg-config --cflags --libs gstreamer-1.0)
 *     ./manager [--sessions 16] [--seconds 60] [--round 15] [--seed 1] [PROPERTIES-OF-DECARTTRANSFORM]
 *
 *     decart-standin --port 9001 &
 *     ./manager 'base-url=ws://127.0.0.1:9001 api-key=x'
 *
 * Each session is a pipeline with a decarttransform of its own. In each round the manager acts four times a second,
 * then fills up to all sessions, and prints a line once every one of them shows transformed frames. The second line and
 * the last have no session. Lines of the same number of sessions can be compared: sessions that come and go leave
 * nothing behind. */
#include <dirent.h>
#include <gst/gst.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a session needs besides the service: 320x176 at 15 frames a second. */
#define PIPELINE                                                                                                      \
    "videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width=320,height=176,framerate=15/1"           \
    " ! decarttransform name=decart model=test-model width=320 height=176 framerate=15 fallback=none %s"             \
    " ! fakesink name=out sync=false"
static const char *const prompts[] = { "Lego World", "Cyberpunk", "Anime", "Film noir" };

typedef struct {
    GstElement *pipeline, *decart;
    guint watch;
    gint frames; /* atomic */
    gint frames_before;
} Session;

typedef struct {
    GMainLoop *loop;
    GPtrArray *sessions;
    GRand *random;
    GstObject *tracer;
    char *properties;
    guint most, failures;
    guint added, prompted, accepted, removed;
    gint64 begin, end, round, churns_until, settled_at;
    /* The manager has ended all sessions: once after the first line, and at the end. */
    gboolean is_empty, was_empty;
} Manager;

enum { SETTLE = 2 * G_USEC_PER_SEC, LIMIT = 30 * G_USEC_PER_SEC };

/* --- What the process holds ---------------------------------------------------------------------------------------- */

static guint entries(const char *path) {
    guint count = 0;
    DIR *folder = opendir(path);
    while (folder && readdir(folder)) count++;
    if (folder) closedir(folder);
    /* Without "." and "..", and for descriptors without the folder's own. */
    return count > 2 ? count - 2 : 0;
}

static double resident(void) {
    long pages = 0, all = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 0;
    if (file) fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

/* What the process has allocated and not freed. RSS also has what the allocator keeps for later: malloc_trim() returns
 * that to the system, which a server should do now and then after sessions have ended. */
static double allocated(void) {
    struct mallinfo2 heap = mallinfo2();
    return (double)(heap.uordblks + heap.hblkhd) / (1 << 20);
}

/* The tracer "leaks", which notes each GstObject that is made or freed. Its list of live objects would take references
 * to objects that another thread may be freeing. */
static GstObject *start_tracing(void) {
    GstObject *found = NULL;
    GList *tracers = gst_tracing_get_active_tracers();
    for (GList *each = tracers; each; each = each->next) {
        if (!found && g_signal_lookup("activity-get-checkpoint", G_OBJECT_TYPE(each->data)))
            found = gst_object_ref(each->data);
    }
    g_list_free_full(tracers, gst_object_unref);
    if (found) g_signal_emit_by_name(found, "activity-start-tracking");
    return found;
}

/* Live GstObjects that were made since tracing started. */
static gint objects(GstObject *tracer) {
    static gint live = 0;
    GstStructure *changes = NULL;
    if (tracer) g_signal_emit_by_name(tracer, "activity-get-checkpoint", &changes);
    if (!changes) return -1;
    live += (gint)gst_value_list_get_size(gst_structure_get_value(changes, "objects-created-list"));
    live -= (gint)gst_value_list_get_size(gst_structure_get_value(changes, "objects-removed-list"));
    gst_structure_free(changes);
    return live;
}

static void report(Manager *manager) {
    gint least = G_MAXINT;
    malloc_trim(0);
    for (guint index = 0; index < manager->sessions->len; index++) {
        Session *session = g_ptr_array_index(manager->sessions, index);
        gint frames = g_atomic_int_get(&session->frames) - session->frames_before;
        if (frames < least) least = frames;
    }
    g_print("%6.1f s: sessions %u, fds %u, threads %u, objects %d, allocated %.1f MiB, rss %.1f MiB, frames %d, added %u, prompted %u, "
            "accepted %u, removed %u\n",
            (double)(g_get_monotonic_time() - manager->begin) / G_USEC_PER_SEC, manager->sessions->len,
            entries("/proc/self/fd") - 1, entries("/proc/self/task"), objects(manager->tracer), allocated(), resident(),
            manager->sessions->len ? least : 0, manager->added, manager->prompted, manager->accepted,
            manager->removed);
}

/* --- Sessions ------------------------------------------------------------------------------------------------------ */

static gboolean on_message(GstBus *bus, GstMessage *message, gpointer data) {
    Manager *manager = data;
    const GstStructure *structure = gst_message_get_structure(message);
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR || GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING) {
        GError *error = NULL;
        if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
            gst_message_parse_error(message, &error, NULL);
        else
            gst_message_parse_warning(message, &error, NULL);
        g_printerr("%s: %s\n", GST_MESSAGE_SRC_NAME(message), error->message);
        g_error_free(error);
        manager->failures++;
    } else if (structure && gst_structure_has_name(structure, "decart-prompt-result")) {
        gboolean accepted = FALSE;
        gst_structure_get_boolean(structure, "accepted", &accepted);
        if (accepted) manager->accepted++;
    }
    return G_SOURCE_CONTINUE;
}

static GstPadProbeReturn on_frame(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
    g_atomic_int_inc(&((Session *)data)->frames);
    return GST_PAD_PROBE_OK;
}

static void prompt(Manager *manager, Session *session) {
    guint64 request = 0;
    const char *text = prompts[g_rand_int_range(manager->random, 0, G_N_ELEMENTS(prompts))];
    g_signal_emit_by_name(session->decart, "set-prompt", text, FALSE, &request);
    if (request) manager->prompted++;
}

static void add(Manager *manager) {
    char *description = g_strdup_printf(PIPELINE, manager->properties);
    GError *error = NULL;
    GstElement *pipeline = gst_parse_launch(description, &error);
    g_free(description);
    if (error) {
        g_printerr("%s\n", error->message);
        exit(2);
    }
    Session *session = g_new0(Session, 1);
    session->pipeline = pipeline;
    session->decart = gst_bin_get_by_name(GST_BIN(pipeline), "decart");
    g_object_set(session->decart, "prompt", prompts[0], NULL);
    GstElement *out = gst_bin_get_by_name(GST_BIN(pipeline), "out");
    GstPad *pad = gst_element_get_static_pad(out, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, on_frame, session, NULL);
    gst_object_unref(pad);
    gst_object_unref(out);
    GstBus *bus = gst_element_get_bus(pipeline);
    session->watch = gst_bus_add_watch(bus, on_message, manager);
    gst_object_unref(bus);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    g_ptr_array_add(manager->sessions, session);
    manager->added++;
}

static void removed(gpointer data) {
    Session *session = data;
    gst_element_set_state(session->pipeline, GST_STATE_NULL);
    g_source_remove(session->watch);
    gst_object_unref(session->decart);
    gst_object_unref(session->pipeline);
    g_free(session);
}

static Session *any(Manager *manager) {
    return g_ptr_array_index(manager->sessions, g_rand_int_range(manager->random, 0, manager->sessions->len));
}

static void drop(Manager *manager) {
    g_ptr_array_remove_fast(manager->sessions, any(manager));
    manager->removed++;
}

/* Every session has shown a frame since the last call. */
static gboolean all_show_frames(Manager *manager) {
    gboolean all = TRUE;
    for (guint index = 0; index < manager->sessions->len; index++) {
        Session *session = g_ptr_array_index(manager->sessions, index);
        gint frames = g_atomic_int_get(&session->frames);
        if (frames == session->frames_before) all = FALSE;
        session->frames_before = frames;
    }
    return all;
}

/* --- The rounds ---------------------------------------------------------------------------------------------------- */

static void churn(Manager *manager) {
    guint count = manager->sessions->len;
    gint choice = g_rand_int_range(manager->random, 0, 3);
    if (choice == 0 && count)
        prompt(manager, any(manager));
    else if ((choice == 1 && count < manager->most) || count < manager->most / 2)
        add(manager);
    else
        drop(manager);
}

static gboolean on_tick(gpointer data) {
    Manager *manager = data;
    gint64 now = g_get_monotonic_time();
    if (now < manager->churns_until) {
        churn(manager);
        return G_SOURCE_CONTINUE;
    }
    if (manager->is_empty) {
        if (now < manager->settled_at) return G_SOURCE_CONTINUE;
        report(manager);
        manager->is_empty = FALSE;
        manager->settled_at = 0;
        if (now >= manager->end) {
            g_main_loop_quit(manager->loop);
            return G_SOURCE_REMOVE;
        }
        manager->churns_until = now + manager->round;
        return G_SOURCE_CONTINUE;
    }
    if (manager->sessions->len < manager->most) {
        add(manager);
        manager->settled_at = 0;
        return G_SOURCE_CONTINUE;
    }
    if (!manager->settled_at) {
        if (all_show_frames(manager)) manager->settled_at = now + SETTLE;
        if (now > manager->churns_until + LIMIT) {
            g_printerr("not all sessions show frames\n");
            manager->failures++;
            g_main_loop_quit(manager->loop);
        }
        return G_SOURCE_CONTINUE;
    }
    if (now < manager->settled_at) return G_SOURCE_CONTINUE;
    report(manager);
    manager->settled_at = 0;
    manager->churns_until = now + manager->round;
    if (!manager->was_empty || now >= manager->end) {
        g_ptr_array_set_size(manager->sessions, 0);
        manager->is_empty = manager->was_empty = TRUE;
        manager->churns_until = 0;
        manager->settled_at = now + SETTLE;
    }
    return G_SOURCE_CONTINUE;
}

int main(int argc, char **argv) {
    gint sessions = 16, seconds = 60, round = 15, seed = 1;
    const GOptionEntry options[] = {
        { "sessions", 0, 0, G_OPTION_ARG_INT, &sessions, "Sessions at once", "N" },
        { "seconds", 0, 0, G_OPTION_ARG_INT, &seconds, "Time after which no further round begins", "N" },
        { "round", 0, 0, G_OPTION_ARG_INT, &round, "Seconds of a round", "N" },
        { "seed", 0, 0, G_OPTION_ARG_INT, &seed, "Seed of the random choices", "N" },
        { 0 },
    };
    /* The tracer counts the objects; it must be set before GStreamer starts. */
    g_setenv("GST_TRACERS", "leaks(filters=\"GstObject\")", FALSE);
    GError *error = NULL;
    GOptionContext *context = g_option_context_new("[PROPERTIES-OF-DECARTTRANSFORM]");
    g_option_context_add_main_entries(context, options, NULL);
    g_option_context_add_group(context, gst_init_get_option_group());
    if (!g_option_context_parse(context, &argc, &argv, &error) || sessions < 1 || seconds < 0 || round < 0) {
        g_printerr("%s\n", error ? error->message : "The numbers must not be negative.");
        return 2;
    }
    g_option_context_free(context);
    Manager manager = { 0 };
    manager.tracer = start_tracing();
    manager.loop = g_main_loop_new(NULL, FALSE);
    manager.sessions = g_ptr_array_new_with_free_func(removed);
    manager.random = g_rand_new_with_seed((guint32)seed);
    manager.properties = g_strjoinv(" ", argv + 1);
    manager.most = (guint)sessions;
    manager.round = (gint64)round * G_USEC_PER_SEC;
    manager.begin = g_get_monotonic_time();
    manager.end = manager.begin + (gint64)seconds * G_USEC_PER_SEC;
    manager.churns_until = manager.begin;
    g_timeout_add(250, on_tick, &manager);
    g_main_loop_run(manager.loop);
    g_ptr_array_free(manager.sessions, TRUE);
    gst_clear_object(&manager.tracer);
    g_rand_free(manager.random);
    g_free(manager.properties);
    g_main_loop_unref(manager.loop);
    return manager.failures ? 1 : 0;
}
