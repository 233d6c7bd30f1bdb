/** Where a stream begins for a client that has no last id yet, and names none in its header. */
import { expect, test } from "vitest";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

test("an empty Last-Event-ID is none, at both streams", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client() });
  for (const path of ["replies", "events"])
    for (const [id, status] of [
      ["", 200],
      ["x", 400],
    ] as const) {
      const headers = { accept: "text/event-stream", "last-event-id": id };
      // A HEAD ends where the body of the stream would begin.
      const answer = await fetch(`${api.url}/v1/parents/planner-7/${path}`, { method: "HEAD", headers });
      expect([path, id, answer.status]).toEqual([path, id, status]);
    }
});
