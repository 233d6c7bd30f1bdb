/** Hostile commands in the real sandbox: as root, as an ordinary user, and where the system forbids namespaces. */
import { beforeAll, describe, expect, it } from "vitest";
import { HOSTILE } from "./hostile-commands.ts";
import { drive, driveAll, expectNoEscape, isRoot, setTraps, untouched } from "./hostile-scene.ts";

describe("the sandbox of bash", () => {
  let before: string;
  let reports: Awaited<ReturnType<typeof driveAll>>;
  beforeAll(async () => {
    await setTraps();
    before = untouched();
    reports = await driveAll("hostile");
  }, 900_000);

  it("is attacked by more than 80 commands", () => {
    expect(Object.keys(HOSTILE).length).toBeGreaterThanOrEqual(80);
  });

  it.runIf(isRoot)("lets nothing out behind root, whose rights it gives up first", async () => {
    const report = await reports.root;
    expect(report.sentence).toBe("bash runs in bubblewrap, without network, as the user nobody.");
    expectNoEscape(report, HOSTILE);
    expect(untouched()).toBe(before);
  });

  it("lets nothing out behind an ordinary user", async () => {
    const report = await reports.user;
    expect(report.sentence).toBe("bash runs in bubblewrap, without network.");
    expectNoEscape(report, HOSTILE);
    expect(untouched()).toBe(before);
  });

  it("lets nothing out by the proxy that it has", async () => {
    const report = await reports.network;
    expect(report.sentence).toContain("with a proxy to allowed.invalid,");
    expectNoEscape(report, HOSTILE);
    expect(untouched()).toBe(before);
  });

  it("is not offered where the system forbids namespaces, and says why", async () => {
    const launcher = ["/usr/bin/bwrap", "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"];
    const { sentence, said } = await drive({ name: "forbidden", kind: "hostile", launcher });
    expect(sentence).toMatch(
      /^bash is not offered: no sandbox runs here \(bubblewrap: .+; runsc: it is not installed\)\. Install bubblewrap/,
    );
    expect(said).toEqual({});
  });
});
