/**
 * The text deltas of a run, gathered and published while a subscriber listens. All other events are part of the commits that
 * they describe, and the verbs publish them. Hints only, never state.
 */
import type { Clock } from "../../shared/clock.ts";
import { type Link, LinkedList } from "../../shared/linked-list.ts";
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import type { PublishEvent } from "../../shared/redis/events.ts";
import { secretFilter } from "../../shared/secrets.ts";

/** Interval at which gathered text deltas are published. */
const DELTA_INTERVAL_MS = 100;

type TellText = (turn: number, text: string) => void;

/** Returns a function that publishes text of this run. */
export function tellTextOf(
  { publish }: { publish: PublishEvent },
  { address, record }: { address: AgentAddress; record: AgentRecord },
): TellText {
  const { agent_id, name, run } = record;
  return (turn, text) => publish(address, { v: 1, agent_id, name, run, turn, type: "text_delta", text });
}

/** Gathers the text of one model call. */
export interface TextFeed {
  push(delta: string): void;
  /** Publishes the gathered text; the call is over. */
  close(): void;
}

/** The text of all model calls of a process, on one timer. */
export class TextFeeds {
  readonly #clock: Clock;
  readonly #flushes = new LinkedList<() => void>();
  #timer: { cancel(): void } | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns a feed for turn `turn`. */
  open(turn: number, tell: TellText): TextFeed {
    let gathered = "";
    const filter = secretFilter();
    const publish = (text: string) => {
      if (text !== "") tell(turn, text);
    };
    let due: Link<() => void> | undefined;
    const noLongerDue = () => {
      due?.remove();
      due = undefined;
    };
    const flush = () => {
      noLongerDue();
      publish(filter.push(gathered));
      gathered = "";
    };
    return {
      push: (delta) => {
        gathered += delta;
        due ??= this.#flushes.add(flush);
        this.#timer ??= this.#clock.timeout(DELTA_INTERVAL_MS, () => {
          this.#timer = undefined;
          for (const each of this.#flushes) each();
        });
      },
      close: () => {
        noLongerDue();
        publish(filter.push(gathered) + filter.end());
        gathered = "";
      },
    };
  }
}
