/** What may keep every worker from calling its model, as reasons for readiness: a provider's gate, an operator's pause. */
import type { Pause } from "../shared/redis/pause.ts";
import type { GateState, ProviderGate } from "../shared/redis/provider-gate.ts";
import type { ReadinessProbe } from "./readiness.ts";

/** The probes; a gate that only slows calls down is no reason. */
export function providerProbes(
  gate: Pick<ProviderGate, "list">,
  pause: Pick<Pause, "state">,
): ReadinessProbe[] {
  return [
    async () => (await gate.list()).flatMap(reasonOf).join("; ") || undefined,
    async () => {
      const paused = await pause.state();
      return paused && `paused since ${paused.at}${paused.reason === undefined ? "" : ` (${paused.reason})`}`;
    },
  ];
}

function reasonOf({ name, state, reason, until }: GateState): string[] {
  if (state === "slowed") return [];
  const what = state === "denied" ? "breaker open" : "rate limited";
  return [`model: ${what} for ${name} (${reason})${until === undefined ? "" : ` until ${until}`}`];
}
