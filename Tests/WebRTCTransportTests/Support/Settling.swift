import EventLoopThreads
import ICE

/// Returns after the network threads have handled what was queued before.
func letTheNetworkThreadRun() { for thread in NetworkThreads.shared.all { thread.sync {} } }
