/** The offline model for a worker in this process; each call waits for a promise of the test. */
import { createAnthropicModel } from "../../src/worker/model/anthropic/model.ts";
import type { Model, ModelRequest } from "../../src/worker/model/model.ts";
import type { Stage } from "../stage/stage.ts";
import { closeAtEnd } from "./cleanup.ts";

/** Returns a model that awaits `before` ahead of every call. The test's end stops it. */
export function heldModel(
  { offline }: Stage,
  before: (request: ModelRequest) => Promise<unknown> | undefined,
): Model {
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: offline.url });
  closeAtEnd(() => model.stop());
  return {
    async call(request, options) {
      await before(request);
      return model.call(request, options);
    },
    limiterName: (name) => model.limiterName?.(name) ?? name,
    stop: () => model.stop(),
  };
}
