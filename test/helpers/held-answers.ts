/** Holds back HTTP answers of a server in this process: the handler has produced them, but they are not sent. */
import { ServerResponse } from "node:http";
import { vi } from "vitest";
import { closeAtEnd } from "./cleanup.ts";

/** See the module's header. */
export interface HeldAnswers {
  /** Number of answers held back. */
  readonly count: number;
  /** Destroys their connections, as if the client had disconnected. Later answers are sent as usual. */
  cutOff(): void;
}

/** Holds back all answers of the server on the port of `url` from now on. */
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
