/** What a caller is told that names no model. */
import { expect, test } from "vitest";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";

test("a client whose model is that of the workers, of which none is live, says that one may be started", async () => {
  const looking = testParent(testClient({ model: () => undefined }));
  await expect(looking.spawn({ name: "a" })).rejects.toMatchObject(
    refusal("invalid_input", /start a worker: no live one has said its model/),
  );
});
