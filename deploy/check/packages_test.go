package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sassoftware/go-rpmutils"
)

// files are the files of both packages, without manual pages.
var files = []string{
	"/etc/loaderd/loaderd.yaml", "/usr/bin/loaderd", "/usr/lib/systemd/system/loaderd.service",
	"/usr/lib/sysusers.d/loaderd.conf",
	"/usr/lib/tmpfiles.d/loaderd.conf", "/usr/share/bash-completion/completions/loaderd",
	"/usr/share/doc/loaderd/THIRD-PARTY-NOTICES.txt",
	"/usr/share/fish/vendor_completions.d/loaderd.fish", "/usr/share/loaderd/grafana/loaderd.json",
	"/usr/share/loaderd/prometheus/loaderd.rules.yaml",
}

// packaged returns the folder of packages for this machine's architecture, which make packages builds once.
var packaged = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("make", "packages", "ARCHES="+runtime.GOARCH)
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	return "../../bin/packages", cmd.Run()
})

// made returns the only package of a kind.
func made(t *testing.T, kind string) string {
	t.Helper()
	folder, err := packaged()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(folder, "*."+kind))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	return found[0]
}

// tool runs a program of the system. If the program is missing, the test is skipped with a message, and fails where
// CI is set.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		message := "NOT RUN: " + t.Name() + " needs " + name
		if os.Getenv("CI") != "" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "MANPAGER=cat", "MANWIDTH=100", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// without removes the manual pages, and checks that at least 30 exist (one per command).
func without(t *testing.T, all []string) (others []string) {
	t.Helper()
	pages := 0
	for _, f := range all {
		if strings.HasPrefix(f, "/usr/share/man/man1/loaderd") && strings.HasSuffix(f, ".1.gz") {
			pages++
			continue
		}
		others = append(others, f)
	}
	if pages < 30 {
		t.Errorf("%d manual pages", pages)
	}
	slices.Sort(others)
	return others
}

// unpacked returns a root with the Debian package unpacked in it.
func unpacked(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	tool(t, "dpkg-deb", "-x", made(t, "deb"), root)
	return root
}

func TestDeb_HasExpectedFiles(t *testing.T) {
	root := unpacked(t)
	var found []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = append(found, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(files), "/usr/share/zsh/vendor-completions/_loaderd")
	if diff := cmp.Diff(want, without(t, found)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if said := tool(t, "dpkg-deb", "-f", made(t, "deb"), "Package", "Architecture"); !strings.Contains(said,
		"Package: loaderd") || !strings.Contains(said, runtime.GOARCH) {
		t.Error(said)
	}
	if said := tool(t, filepath.Join(root, "usr/bin/loaderd"), "serve", "-c",
		filepath.Join(root, "etc/loaderd/loaderd.yaml"), "--print-config"); !strings.Contains(said,
		"dir: /var/lib/loaderd/data") {
		t.Errorf("the package's configuration says %s", said)
	}
	if said := tool(t, "man", "--warnings", "--local-file",
		filepath.Join(root, "usr/share/man/man1/loaderd-health.1.gz")); !strings.Contains(said, "LOADERD-HEALTH(1)") ||
		strings.Contains(said, "warning") {
		t.Errorf("the manual page reads %s", said)
	}
	// A shell accepts the completion, which offers the program's commands.
	completion :=
		`source "$1"; COMP_WORDS=(loaderd hea); COMP_CWORD=1; COMP_LINE="loaderd hea"; COMP_POINT=11; PATH="$2:$PATH"; __start_loaderd; echo "${COMPREPLY[@]}"`
	library := "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(library); err == nil {
		completion = "source " + library + "; " + completion
	} else { // what the script uses of it
		completion =
			`_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; }; __ltrim_colon_completions() { :; }; compopt() { :; }; ` + completion
	}
	if said := tool(t, "bash", "-c", completion, "bash",
		filepath.Join(root, "usr/share/bash-completion/completions/loaderd"),
		filepath.Join(root, "usr/bin")); !strings.Contains(said, "health") {
		t.Errorf("completion of hea is %q", said)
	}
}

func TestRPM_HasExpectedFiles(t *testing.T) {
	f, err := os.Open(made(t, "rpm"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, x := range all {
		if x.Mode()&0o170000 == 0o100000 {
			found = append(found, x.Name())
		}
	}
	want := append(slices.Clone(files), "/usr/share/zsh/site-functions/_loaderd")
	if diff := cmp.Diff(want, without(t, found)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for tag, want := range map[int]string{rpmutils.POSTIN: "systemd-sysusers", rpmutils.PREUN: "systemctl disable",
		rpmutils.POSTUN: "daemon-reload"} {
		if script, err := r.Header.GetString(tag); err != nil || !strings.Contains(script, want) {
			t.Errorf("script %d is %q, %v", tag, script, err)
		}
	}
}

// A plain shell accepts the scripts of the packages, and they do nothing where systemd does not run.
func TestPackageScripts_RunInPlainShell(t *testing.T) {
	for _, name := range []string{"postinstall", "preremove", "postremove"} {
		tool(t, "sh", "-n", "../packages/"+name)
	}
	tool(t, "sh", "../packages/preremove", "upgrade")
}

// systemd accepts the unit of the package without warnings and rates it as safe. The user and the folders are created
// as specified.
func TestSystemdUnit_IsAccepted(t *testing.T) {
	root := unpacked(t)
	unit := filepath.Join(root, "usr/lib/systemd/system/loaderd.service")
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	// verify looks for the program in this machine's root, where it is not installed
	here := strings.ReplaceAll(string(text), "ExecStart=/usr/bin/loaderd",
		"ExecStart="+filepath.Join(root, "usr/bin/loaderd"))
	copied := filepath.Join(t.TempDir(), "loaderd.service")
	if err := os.WriteFile(copied, []byte(strings.ReplaceAll(here, "Documentation=man:loaderd-serve(1)\n", "")),
		0o644); err != nil {
		t.Fatal(err)
	}
	if said := strings.TrimSpace(tool(t, "systemd-analyze", "verify", "--man=no", copied)); said != "" {
		t.Errorf("systemd-analyze verify: %s", said)
	}
	// An exposure of 10 means no protection. An exposure below 1.5 is about the minimum for a program that serves a
	// network.
	if said := tool(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=15",
		copied); !strings.Contains(said, "OK") {
		t.Error(said)
	}
	users := tool(t, "systemd-sysusers", "--root="+root, filepath.Join(root, "usr/lib/sysusers.d/loaderd.conf"))
	passwd, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil || !strings.Contains(string(passwd), ":/var/lib/loaderd:/usr/sbin/nologin") {
		t.Errorf("sysusers made %q: %v\n%s", passwd, err, users)
	}
	if os.Getuid() == 0 { // only root can change a folder's owner
		tool(t, "systemd-tmpfiles", "--root="+root, "--create", filepath.Join(root, "usr/lib/tmpfiles.d/loaderd.conf"))
		for folder, want := range map[string]os.FileMode{"etc/loaderd": 0o750, "var/lib/loaderd": 0o700} {
			if info, err := os.Stat(filepath.Join(root, folder)); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v", folder, info, err)
			}
		}
	}
}
