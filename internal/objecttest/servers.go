package objecttest

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Keys of the servers.
const (
	S3Access     = "tester"
	S3Secret     = "tester-secret"
	AzureAccount = "devstoreaccount1"
	AzureKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// S3 starts VersityGW, an S3 server that checks signatures, and returns its address.
func S3(tb testing.TB) string {
	port := freePort(tb)
	return start(tb, port, tool(tb, "github.com/versity/versitygw/cmd/versitygw"), "--port", "127.0.0.1:"+port, "--access",
		S3Access, "--secret", S3Secret, "--quiet", "posix", tb.TempDir())
}

// GCS starts a fake-gcs-server and returns its address.
func GCS(tb testing.TB) string {
	port := freePort(tb)
	return start(tb, port, tool(tb, "github.com/fsouza/fake-gcs-server"), "-backend", "memory", "-scheme", "http", "-host",
		"127.0.0.1", "-port", port, "-log-level", "error")
}

// azuriteVersion is the version of Azurite that is installed.
const azuriteVersion = "3.35.0"

// Azure starts Azurite, Microsoft's emulator, and returns its address, including the account's name.
func Azure(tb testing.TB) string {
	tb.Helper()
	folder := filepath.Join(cache(tb), "azurite-"+azuriteVersion)
	program := filepath.Join(folder, "node_modules", ".bin", "azurite-blob")
	if _, err := os.Stat(program); err != nil {
		if out, err := exec.Command("npm", "install", "--no-audit", "--no-fund", "--prefix", folder,
			"azurite@"+azuriteVersion).CombinedOutput(); err != nil {
			tb.Fatalf("install Azurite: %v\n%s", err, out)
		}
	}
	port := freePort(tb)
	return start(tb, port, program, "--blobHost", "127.0.0.1", "--blobPort", port, "--location", tb.TempDir(), "--silent",
		"--skipApiVersionCheck") + "/" + AzureAccount
}

// KeepCaches keeps the default cache folders for tests that set another home folder.
func KeepCaches() {
	caches, err := os.UserCacheDir()
	home, homeErr := os.UserHomeDir()
	if err != nil || homeErr != nil {
		return
	}
	for name, folder := range map[string]string{"LOADERD_TEST_CACHE": caches, "GOCACHE": filepath.Join(caches, "go-build"),
		"GOPATH":           filepath.Join(home, "go"),
		"npm_config_cache": filepath.Join(home, ".npm")} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, folder)
		}
	}
}

// cache returns a folder that outlasts the test.
func cache(tb testing.TB) string {
	folder, err := os.UserCacheDir()
	if set := os.Getenv("LOADERD_TEST_CACHE"); set != "" {
		folder, err = set, nil
	}
	if err != nil {
		tb.Fatal(err)
	}
	folder = filepath.Join(folder, "loaderd-tests")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		tb.Fatal(err)
	}
	return folder
}

// tool builds a server of the nested module if it is not built yet, and returns the path of the program.
func tool(tb testing.TB, pkg string) string {
	tb.Helper()
	_, here, _, _ := runtime.Caller(0)
	program := filepath.Join(cache(tb), filepath.Base(pkg))
	build := exec.Command("go", "build", "-o", program, pkg)
	build.Dir = filepath.Join(filepath.Dir(here), "servers")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return program
}

func freePort(tb testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close() // the server uses the port
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// start starts a server, waits until it accepts connections, and stops it at the end of the test.
func start(tb testing.TB, port, program string, args ...string) string {
	tb.Helper()
	file, err := os.Create(filepath.Join(tb.TempDir(), "log"))
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = file, file, 5*time.Second
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = file.Close()
	})
	deadline := time.Now().Add(time.Minute)
	for {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = c.Close()
			return "http://127.0.0.1:" + port
		}
		select {
		case err = <-ended:
			ended <- err
		case <-time.After(20 * time.Millisecond):
			if time.Now().Before(deadline) {
				continue
			}
		}
		said, _ := os.ReadFile(file.Name())
		tb.Fatalf("%s does not start: %v\n%s", filepath.Base(program), err, said)
	}
}

// Proxy starts a reverse proxy for a server and returns its address. It forwards unchanged, except for faults.
func Proxy(tb testing.TB, target string, faults func(r *http.Request) Fault) string {
	u, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: u.Scheme, Host: u.Host})
			r.Out.Host = r.In.Host // the host is part of the signature
		},
		ModifyResponse: func(answer *http.Response) error {
			if f := faults(answer.Request); f.Cut {
				answer.Body = &cutBody{answer.Body, f.After}
			}
			return nil
		},
		ErrorLog: quiet,
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if f := faults(r); f.Status != 0 {
			out.WriteHeader(f.Status)
			return
		}
		pass.ServeHTTP(out, r)
	}))
	server.Config.ErrorLog = quiet
	server.Start()
	tb.Cleanup(server.Close)
	return server.URL + strings.TrimSuffix(u.Path, "/")
}

// cutBody ends with an error after left bytes.
type cutBody struct {
	io.ReadCloser
	left int64
}

func (c *cutBody) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, fmt.Errorf("cut")
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// quiet discards the log of servers whose connections are cut on purpose.
var quiet = log.New(io.Discard, "", 0)
