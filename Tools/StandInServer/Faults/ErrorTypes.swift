/// The words of `error_type` in an `error`: `RealtimeWebSocketErrorType` of DecartAI/sdk#144 (2026-05-20, not merged,
/// packages/sdk/src/realtime/types.ts), and `capacity` of October 2026. Not those of the elements, so that a mistake there shows.
package enum ErrorTypes {
    package static let all = [
        "invalid_api_key", "origin_not_allowed", "invalid_model", "removed_model", "model_not_available_for_trial",
        "insufficient_credits", "capacity", "upstream_capacity", "upstream_rejected", "upstream_timeout",
        "model_server_disconnected", "model_setup_timeout", "session_duration_limit", "session_not_found",
        "server_shutdown", "moderation_violation", "internal_error",
    ]
}
