/** The offline model behind a worker of this process, whose calls wait until the test lets them out. */
import { createAnthropicModel } from "../../src/worker/model/anthropic/model.ts";
import type { Model, ModelRequest } from "../../src/worker/model/model.ts";
import type { Stage } from "../stage/stage.ts";
import { closeAtEnd } from "./cleanup.ts";

/** A model that awaits `before` ahead of every call; stopped with the test. */
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
