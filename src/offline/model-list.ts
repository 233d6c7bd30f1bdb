/** The models that the server lists. It answers for any other id, too. Pure. */

/** Id of the model that the offline model calls its own. */
export const OFFLINE_MODEL_ID = "offline-1";

/** Says what this server is, in one sentence for a banner. */
export const OFFLINE_NOTICE =
  "Offline model: a rule-based stand-in that speaks the Messages API. It is not a large language model.";

/** The description of a model id; an id is only text here, every id is served alike. */
export function modelInfo(id: string) {
  return {
    type: "model",
    id,
    display_name: `Offline model ${id === OFFLINE_MODEL_ID ? "1" : `answering as ${id}`} (rule-based, not an LLM)`,
    created_at: "1970-01-01T00:00:00Z",
    capabilities: null,
    deprecated_at: null,
    retires_at: null,
    lifecycle: "active",
    line: null,
    max_input_tokens: 1_000_000,
    max_tokens: 128_000,
  } as const;
}

/** The page that `GET /v1/models` answers. */
export function modelPage() {
  return {
    data: [modelInfo(OFFLINE_MODEL_ID)],
    has_more: false,
    first_id: OFFLINE_MODEL_ID,
    last_id: OFFLINE_MODEL_ID,
  };
}
