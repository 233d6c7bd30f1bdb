/** What the live page makes of an answer to a key that was replaced meanwhile. */
import type { Route } from "playwright-core";
import { describe, expect, test } from "vitest";
import { createApiKeys } from "../../src/shared/redis/api-keys.ts";
import { startApi } from "../helpers/api.ts";
import { browserOfThisFile, hasBrowser } from "../helpers/browser.ts";
import { openStage } from "../stage/stage.ts";

const { openPage } = browserOfThisFile();

describe.skipIf(!hasBrowser)("the live page", () => {
  test("keeps a new key, though the refusal of the one before comes after it", async () => {
    const stage = await openStage();
    for (const id of ["one", "two"]) await stage.parent(id, { tenant: "acme" }).spawn({ name: "a" });
    const keys = createApiKeys(stage.redis, stage.keys);
    const [old, renewed] = await Promise.all(
      ["old", "new"].map((name) => keys.create({ tenant: "acme", name, scope: "read" })),
    );
    const api = await startApi({ client: stage.client() });
    const { page } = await openPage();
    await page.goto(api.url);
    const enter = async (token = "") => {
      await page.getByLabel("This installation has keys").fill(token);
      await page.getByRole("button", { name: "Show" }).click();
    };
    await enter(old?.token);
    await page.locator("#parents li").first().waitFor();
    const held = new Promise<Route>((resolve) => void page.route("**/v1/parents?*", resolve, { times: 1 }));
    const route = await held;
    await page.getByRole("button", { name: "Forget key" }).click();
    await enter(renewed?.token);
    await route.fulfill({
      status: 401,
      contentType: "application/problem+json",
      body: '{"detail":"revoked"}',
    });
    await page.locator("#parents li").first().waitFor();
    expect(await page.locator("#state").textContent()).toBe("live");
  });
});
