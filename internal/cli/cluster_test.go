package cli

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/natstest"
)

// All runs, or one of them, move from a folder to a server and then to another server, and continue there.
func TestClusterMigrate_RunsContinueOnOtherServers(t *testing.T) {
	s := newSite(t)
	files := map[string]string{}
	for i := range 120 {
		files[fmt.Sprintf("%03d.txt", i)] = strings.Repeat(fmt.Sprintf("This is document %d of a run. ", i), 1+i*7%23)
	}
	stop := s.serve("--run", "first")
	s.does("publish", "--source", "files", corpusFolder(t, files))
	s.does("seal")
	want := s.read()
	near, far := natstest.URL(natstest.StartEmbedded(t).Store()), natstest.URL(natstest.StartEmbedded(t).Store())
	refused := func(code int, part string, args ...string) {
		t.Helper()
		if have, stdout, stderr := s.loaderd(append([]string{"cluster", "migrate"}, args...)...); have != code ||
			!strings.Contains(stderr, part) || stdout != "" {
			t.Errorf("%v: exit status %d, %q, %q, want %d and %q", args, have, stdout, stderr, code, part)
		}
	}
	refused(command.ExitUsage, "--to", "--daemon", s.dir)
	refused(command.ExitFailed, "run first is led by", "--daemon", s.dir, "--to", near)
	refused(command.ExitFailed, "run first is led by", "--daemon", "nats://"+s.nats, "--set",
		"stream.dir="+s.dir, "--to", near, "--dry-run")
	stop()
	stop = s.serve("--run", "second")
	s.does("seal")
	s.read()
	stop()

	refused(command.ExitFailed, "absent", "--daemon", s.dir, "--to", near, "--run", "absent")
	says := func(want string, args ...string) {
		t.Helper()
		if said := s.does(append([]string{"cluster", "migrate"}, args...)...); !strings.Contains(said, want) {
			t.Errorf("output of %v: %q, want %q", args, said, want)
		}
	}
	says("to be copied: 6 streams with 2 runs (first, second)", "--daemon", s.dir, "--to", near, "--dry-run")
	says("with 2 runs (first, second)", "--daemon", s.dir, "--to", near)
	refused(command.ExitFailed, "there is such a stream already", "--daemon", s.dir, "--to", near)
	says("with 1 run (first)", "--daemon", near, "--to", far, "--run", "first")
	said := s.does("run", "list", "--daemon", far)
	if !strings.Contains(said, "first") || strings.Contains(said, "second") {
		t.Errorf("the runs are %s", said)
	}

	s.serve("--run", "first", "--nats", far)
	if have := s.read(); !reflect.DeepEqual(have, want) {
		t.Errorf("the run has %d other steps where it was moved to, want %d", len(have), len(want))
	}
}
