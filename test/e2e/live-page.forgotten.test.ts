/** What the live page shows when a choice was made while it read, or is refused; and the page of the API's document. */
import type { Route } from "playwright-core";
import { describe, expect, test } from "vitest";
import { documentPage } from "../../src/service/api/document-page.ts";
import { openApiOf } from "../../src/service/api/openapi.ts";
import { agentRoutes } from "../../src/service/api/routes/agents.ts";
import { createApiKeys } from "../../src/shared/redis/api-keys.ts";
import { startApi } from "../helpers/api.ts";
import { browserOfThisFile, hasBrowser } from "../helpers/browser.ts";
import { openStage } from "../stage/stage.ts";

const { openPage } = browserOfThisFile();

describe.skipIf(!hasBrowser)("the live page", () => {
  test("shows nothing that it read with a key which was forgotten meanwhile, and asks for another", async () => {
    const stage = await openStage();
    for (const id of ["one", "two"]) await stage.parent(id, { tenant: "acme" }).spawn({ name: "a" });
    const keys = createApiKeys(stage.redis, stage.keys);
    const { token } = await keys.create({ tenant: "acme", name: "dashboard", scope: "read" });
    const api = await startApi({ client: stage.client() });
    const { page } = await openPage();
    await page.goto(api.url);
    await page.getByLabel("This installation has keys").fill(token);
    await page.getByRole("button", { name: "Show" }).click();
    await page.locator("#parents li").first().waitFor();
    const held = new Promise<Route>((resolve) => void page.route("**/v1/parents?*", resolve, { times: 1 }));
    const route = await held;
    await page.getByRole("button", { name: "Forget key" }).click();
    const answered = page.waitForResponse("**/v1/parents?*");
    await route.continue();
    await (await answered).finished();
    // What the page asks for now comes after that answer.
    await page.evaluate("fetch('page.css', { cache: 'no-store' }).then((styles) => styles.text())");
    expect(await page.locator("#content").isVisible()).toBe(false);
    expect(await page.locator("#parents li").count()).toBe(0);
    expect(await page.locator("#state").textContent()).toBe("a key is needed");
  });

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

  test("chooses no parent by itself because it is alone on a later page", async () => {
    const stage = await openStage();
    for (let n = 0; n < 21; n += 1) await stage.parent(`planner-${n}`).spawn({ name: "a" });
    const api = await startApi({ client: stage.client() });
    const { page } = await openPage();
    await page.goto(api.url);
    await page.getByRole("button", { name: "Older" }).click();
    await page.locator("#parents li:only-child").waitFor();
    expect(await page.locator("#parent-title").textContent()).toBe("Choose a parent");
  });

  test("says why it cannot show the parent of its address, and goes back to the one before", async () => {
    const stage = await openStage();
    for (const id of ["one", "two"]) await stage.parent(id).spawn({ name: "a" });
    const api = await startApi({ client: stage.client() });
    const { page } = await openPage();
    await page.goto(`${api.url}/#parent=one`);
    await page.locator("#agents li").waitFor();
    await page.goto(`${api.url}/#parent=a%2Fb`);
    const why = page.locator("#refusal").filter({ hasText: "parent: 1 to 64 characters" });
    await why.waitFor();
    for (let read = 0; read < 2; read++) await page.waitForResponse(/\/v1\/parents\?/);
    expect(await why.isVisible()).toBe(true);
    await page.goBack();
    await page.locator("#agents li").waitFor();
    expect(await page.locator("#parent-title").textContent()).toBe("one");
    expect(await why.isVisible()).toBe(false);
  });
});

test.skipIf(!hasBrowser)(
  "the page of the API's document breaks no name of a parameter at 400 pixels",
  async () => {
    const { page } = await openPage(400);
    await page.setContent(documentPage(agentRoutes, openApiOf(agentRoutes)));
    const [broken, room, needed] = await page.evaluate<[string[], number, number]>(`(() => {
    for (const each of document.querySelectorAll("details")) each.open = true;
    const names = [...document.querySelectorAll("td:first-child code")];
    const broken = names.filter((each) => each.getClientRects().length > 1).map((each) => each.textContent);
    return [broken.filter((name) => !name.includes("-")), document.documentElement.clientWidth, document.documentElement.scrollWidth];
  })()`);
    expect(broken).toEqual([]);
    expect(needed).toBeLessThanOrEqual(room);
  },
);
