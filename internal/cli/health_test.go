package cli

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/arrowout"
	"loaderd/internal/cli/command"
)

// asked runs loaderd health and returns its exit status and its output.
func asked(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var said bytes.Buffer
	code := Run(t.Context(), append([]string{"health"}, args...), strings.NewReader(""), &said, &said)
	return code, said.String()
}

// Health uses the addresses in the daemon's configuration, or those given by flags, and reports the reason of a
// failure.
func TestHealth_ReportsReasonOfFailure(t *testing.T) {
	answers := http.NewServeMux()
	answers.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	answers.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "replaying the plan after a restart: at document 7", http.StatusServiceUnavailable)
	})
	plain, secret := httptest.NewServer(answers), httptest.NewTLSServer(answers)
	t.Cleanup(plain.Close)
	t.Cleanup(secret.Close)
	folder := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	_, port, _ := net.SplitHostPort(secret.Listener.Addr().String())
	configured := write("loaderd.yaml", fmt.Sprintf("http: {listen: %q, cert: cert.pem, key: key.pem, insecure: true}",
		"0.0.0.0:"+port))
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"is healthy", []string{"--set", "http.listen=" + plain.Listener.Addr().String()}, command.ExitOK, "ok\n"},
		{"is not ready", []string{"--ready", "--daemon", plain.URL + "/"}, command.ExitFailed,
			"loaderd: replaying the plan after a restart: at document 7\n"},
		{"has a certificate of another name", []string{"-c", configured}, command.ExitOK, "ok\n"},
		{"is named, and cannot be trusted", []string{"--daemon", secret.URL}, command.ExitFailed, "certificate"},
		{"has any port", []string{"--set", "http.listen=127.0.0.1:0"}, command.ExitUsage,
			`http.listen: "127.0.0.1:0": want a fixed port`},
		{"has a wrong setting", []string{"--set", "http.lissten=x"}, command.ExitUsage, "did you mean http.listen"},
		{"is absent", []string{"--daemon", "http://127.0.0.1:1"}, command.ExitFailed, "cannot reach the daemon: "},
		{"is a Flight server", []string{"--daemon", "http://" + sealingServer(t, func(*arrowout.Config) {})},
			command.ExitFailed, "no HTTP server listens at "},
		{"is no URL", []string{"--daemon", "http://%"}, command.ExitUsage, "--daemon: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			if code, said := asked(t, test.args...); code != test.code || !strings.Contains(said, test.want) {
				t.Errorf("status %d, %q; want %d, %q", code, said, test.code, test.want)
			}
		})
	}
}

// With --wait, health repeats its request until the daemon responds, and stops when interrupted.
func TestHealth_WaitRepeatsRequest(t *testing.T) {
	asks := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asks++; asks < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	}))
	t.Cleanup(server.Close)
	if code, said := asked(t, "--ready", "--wait", "5m", "--daemon", server.URL); code != command.ExitOK ||
		said != "ready\n" || asks != 3 {
		t.Errorf("status %d, %q after %d questions", code, said, asks)
	}
	ctx, stop := context.WithCancel(t.Context())
	hung := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stop()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(hung.Close)
	var said bytes.Buffer
	if code := Run(ctx, []string{"health", "--wait", "10h", "--daemon", hung.URL}, nil, &said,
		&said); code != command.ExitFailed {
		t.Errorf("status %d, %q", code, said.String())
	}
}
