package server_test

import (
	"bufio"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loaderd/stream/server"
)

// member returns the configuration of a member whose peers do not run; the zero value without a name.
func member(t *testing.T, cluster string) server.Cluster {
	t.Helper()
	if cluster == "" {
		return server.Cluster{}
	}
	return server.Cluster{Name: cluster, Listen: free(t), Peers: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}}
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A member keeps the name in its folder, also on another port, because other members identify it by that name.
// Members on one machine have different names.
func TestMember_KeepsItsName(t *testing.T) {
	dir := t.TempDir()
	mark := func(dir string) string {
		t.Helper()
		s, err := start(t, server.Options{Dir: dir, Cluster: member(t, "corpus")})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Health(); err == nil || !strings.Contains(err.Error(), "stream.cluster.peers") {
			t.Errorf("a member without the others: health is %v", err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "server.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := mark(dir)
	if again := mark(dir); again != first {
		t.Errorf("the mark was %s and is %s", first, again)
	}
	if other := mark(t.TempDir()); other == first {
		t.Errorf("two members have the mark %s", other)
	}
}

func TestCluster_RoutePortInUseNamesAddressAndKey(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := member(t, "corpus")
	c.Listen = l.Addr().String()
	_, err = start(t, server.Options{Dir: t.TempDir(), Cluster: c})
	if err == nil || !strings.Contains(err.Error(), c.Listen) || !strings.Contains(err.Error(), "stream.cluster.listen") {
		t.Errorf("error %v, want one that names %s and stream.cluster.listen", err, c.Listen)
	}
}

// hears reads what a server sends until a line, or until the server closes the connection. It reports whether
// the line arrived.
func hears(t *testing.T, c net.Conn, line string) bool {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), line) {
			return true
		}
	}
	return false
}

// stranger returns a certificate that no member has.
func stranger(t *testing.T) tls.Certificate {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	made := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(nil, made, made, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A cluster has a secret without configuration: the first start creates it, and routes without it are refused.
func TestCluster_RefusesRouteWithoutSecret(t *testing.T) {
	dir, c := t.TempDir(), member(t, "corpus")
	s, err := start(t, server.Options{Dir: dir, Cluster: c})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop() //nolint:errcheck // the test ends
	file := filepath.Join(dir, server.SecretFile)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v, want mode 600", file, info, err)
	}
	if text, err := os.ReadFile(file); err != nil || len(text) < 64 {
		t.Errorf("%s holds %d bytes, %v", file, len(text), err)
	}
	const connect = `CONNECT {"verbose":false,"name":"evil","cluster":"corpus","headers":true,"user":"member"}` +
		"\r\nPING\r\n"
	for name, attack := range map[string]func(net.Conn) net.Conn{
		"in the clear": func(c net.Conn) net.Conn { return c },
		"TLS without a certificate": func(c net.Conn) net.Conn {
			return tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		},
		"TLS with its own certificate": func(c net.Conn) net.Conn {
			return tls.Client(c, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{stranger(t)}})
		},
	} {
		conn, err := net.Dial("tcp", c.Listen)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		over := attack(conn)
		_, _ = io.WriteString(over, connect) // fails if the server has refused the certificate
		if hears(t, over, "PONG") {
			t.Errorf("%s: the route is taken", name)
		}
	}
}

// A process that listens on a stopped member's port receives neither the secret nor a proof of it.
func TestCluster_SendsNoSecretInPlainText(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := member(t, "corpus")
	c.Peers[0] = l.Addr().String()
	s, err := start(t, server.Options{Dir: t.TempDir(), Cluster: c})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop() //nolint:errcheck // the test ends
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	const info = `INFO {"server_id":"N","server_name":"evil","cluster":"corpus","host":"127.0.0.1","port":1,"headers":true,"proto":1}`
	if _, err := fmt.Fprint(conn, info+"\r\n"); err != nil {
		t.Fatal(err)
	}
	sent := make([]byte, 7)
	if _, err := io.ReadFull(conn, sent); err != nil || sent[0] != 0x16 {
		t.Errorf("the member sends %q, %v, want a TLS handshake", sent, err)
	}
}
