// Package promtest runs a real Prometheus for tests.
package promtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Folder returns the folder of prometheus and promtool: on the PATH, or those of Debian's package in the user's cache
// folder. If neither is available, the test is skipped with a message, and fails where CI is set.
func Folder(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	get := exec.Command(filepath.Join(filepath.Dir(here), "..", "..", "deploy", "prometheus", "get"))
	var why strings.Builder
	get.Stderr = &why
	out, err := get.Output()
	if err == nil {
		return strings.TrimSpace(string(out))
	}
	message := fmt.Sprintf("NOT RUN: %s needs prometheus and promtool: %v: %s", t.Name(), err,
		strings.TrimSpace(why.String()))
	if os.Getenv("CI") != "" {
		t.Fatal(message)
	}
	fmt.Fprintln(os.Stderr, message)
	t.Skip(message)
	return ""
}

// Server is a Prometheus that stops at the end of the test.
type Server struct{ url string }

var listens = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// Start starts Prometheus with a configuration. Relative paths in it are relative to the test's folder.
func Start(t testing.TB, configuration string) *Server {
	t.Helper()
	folder, data := Folder(t), t.TempDir()
	file := filepath.Join(data, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(folder, "prometheus"), "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(data, "tsdb"),
		"--web.listen-address=127.0.0.1:0", "--enable-feature=exemplar-storage", "--log.format=logfmt")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan string, 1), make(chan struct{})
	var log strings.Builder // read only after ended is closed
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&log, lines.Text())
			if m := listens.FindStringSubmatch(lines.Text()); m != nil && len(ready) == 0 {
				ready <- m[1]
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("prometheus: %v\n%s", err, log.String())
		}
	})
	limit, again := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
	defer again.Stop()
	var s *Server
	for {
		select {
		case address := <-ready:
			s = &Server{"http://" + address}
		case <-again.C:
			if s != nil && s.answers() {
				return s
			}
		case <-ended:
			t.Fatalf("prometheus does not start:\n%s", log.String())
		case <-limit:
			t.Fatal("prometheus is not ready after a minute")
		}
	}
}

// answers reports whether the server has loaded its data and accepts queries.
func (s *Server) answers() bool {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(s.url + "/-/ready")
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// Series is a series of a query's result, with its current value.
type Series struct {
	Metric map[string]string
	Value  [2]any // time, value
}

// Query returns the current value of an expression.
func (s *Server) Query(t testing.TB, expression string) []Series {
	t.Helper()
	var answer struct{ Result []Series }
	s.Get(t, "/api/v1/query?"+url.Values{"query": {expression}}.Encode(), &answer)
	return answer.Result
}

// Get requests the data of a call of Prometheus's API.
func (s *Server) Get(t testing.TB, path string, data any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s", path, answer.Error)
	}
}
