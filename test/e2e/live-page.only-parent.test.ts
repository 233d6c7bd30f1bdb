/** The live page in a real browser: the only parent is shown without a choice, an agent before its first run without a text. */
import type { Route } from "playwright-core";
import { describe, expect, test } from "vitest";
import { startApi } from "../helpers/api.ts";
import { browserOfThisFile, hasBrowser } from "../helpers/browser.ts";
import { openStage } from "../stage/stage.ts";

const { openPage } = browserOfThisFile();

describe.skipIf(!hasBrowser)("the live page", () => {
  test("shows the only parent by itself, once and without a new address; with two it waits for a choice", async () => {
    const stage = await openStage();
    const api = await startApi({ client: stage.client() });
    const { page, misconduct } = await openPage();
    const title = page.locator("#parent-title");
    const list = page.locator("#parents li");
    await page.goto(api.url);
    await page.locator("#no-parents").waitFor();
    expect(await title.isVisible()).toBe(false);

    await stage.parent("planner-7").spawn({ name: "Thinker" });
    await title.filter({ hasText: "planner-7" }).waitFor();
    await page.locator("#agents li", { hasText: /thinker\s*idle/ }).waitFor();
    expect(await list.locator("[aria-current=true]").count()).toBe(1);
    expect(page.url()).toBe(`${api.url}/`);
    expect(await page.getByRole("button", { name: "Last text" }).count()).toBe(0);

    await list.getByRole("button").click();
    const held = new Promise<Route>((resolve) => void page.route("**/replies?*", resolve, { times: 1 }));
    const reading = await held;
    await page.goBack();
    await title.filter({ hasText: "Choose a parent" }).waitFor();
    await reading.continue();
    for (let read = 0; read < 2; read++) await page.waitForResponse(/\/v1\/parents\?/);
    expect(await title.textContent()).toBe("Choose a parent");
    await stage.parent("planner-8").spawn({ name: "Other" });
    await list.nth(1).waitFor();
    expect(await title.textContent()).toBe("Choose a parent");
    await page.reload();
    await list.nth(1).waitFor();
    expect(await title.textContent()).toBe("Choose a parent");
    expect(misconduct).toEqual({ complaints: [], foreign: [] });
  });
});
