/** Holds back the ends of the HTTP answers that a server of this process gives: each has been made, and has not left. */
import { ServerResponse } from "node:http";
import { vi } from "vitest";
import { closeAtEnd } from "./cleanup.ts";

/** See the module's header. */
export interface HeldAnswers {
  /** How many are held. */
  readonly count: number;
  /** Cuts their connections, as a client does that goes away; later answers leave as usual. */
  cutOff(): void;
}

/** Holds what the server on the port of `url` answers from now on. */
export function holdAnswers(url: string): HeldAnswers {
  const port = Number(new URL(url).port);
  const held: ServerResponse[] = [];
  const end = ServerResponse.prototype.end;
  const spy = vi.spyOn(ServerResponse.prototype, "end").mockImplementation(function (
    this: ServerResponse,
    ...args: unknown[]
  ) {
    if (this.socket?.localPort !== port) return Reflect.apply(end, this, args);
    held.push(this);
    return this;
  });
  const cutOff = () => {
    spy.mockRestore();
    for (const response of held.splice(0)) response.destroy();
  };
  closeAtEnd(cutOff);
  return {
    get count() {
      return held.length;
    },
    cutOff,
  };
}
