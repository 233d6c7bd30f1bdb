/** What may keep a worker from its work although its Redis is well: an operator's pause, and a credential that is refused. */
import type { Pause } from "../shared/redis/pause.ts";
import type { ProviderGate } from "../shared/redis/provider-gate.ts";
import { gateNameOf } from "./model/gate.ts";
import type { Model } from "./model/model.ts";
import type { ReadinessProbe } from "./readiness.ts";

/** Not ready while the installation is paused. */
export function pauseProbe(pause: Pick<Pause, "state">): ReadinessProbe {
  return async () => {
    const paused = await pause.state();
    if (!paused) return undefined;
    return `the installation is paused since ${paused.at}${paused.reason ? `: ${paused.reason}` : ""}`;
  };
}

/** Not ready while the provider refuses the credential of `model`; other credentials' gates say nothing about this worker. */
export function credentialProbe(
  gate: Pick<ProviderGate, "list">,
  model: Pick<Model, "gateName">,
): ReadinessProbe {
  return async () => {
    const ours = gateNameOf(model, "");
    const denied = (await gate.list()).find(({ name, state }) => state === "denied" && name.startsWith(ours));
    return denied && `the provider refuses the credential (${denied.reason}) at ${denied.name}`;
  };
}
