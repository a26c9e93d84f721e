package objects_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"loaderd/internal/objects"
)

// serveAt serves at an address of this machine that httptest does not use.
func serveAt(t *testing.T, address string, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// An untrusted web server redirects to services of the machine that reads from it.
func TestWeb_RefusesRedirectsToPrivateAddresses(t *testing.T) {
	const outside, inside = "127.0.0.1", "127.0.0.2"
	private := func(at netip.Addr) bool { return at.String() == inside }
	object := func(out http.ResponseWriter, r *http.Request) {
		if referer := r.Header.Get("Referer"); referer != "" {
			t.Errorf("the Referer is %q", referer)
		}
		_, _ = io.WriteString(out, "an object")
	}
	secret, open := serveAt(t, inside, object), serveAt(t, outside, object)
	redirects := func(to string) http.HandlerFunc {
		return func(out http.ResponseWriter, r *http.Request) { http.Redirect(out, r, to, http.StatusFound) }
	}
	for name, c := range map[string]struct{ from, want string }{
		"outside to outside": {serveAt(t, outside, redirects(open)), ""},
		"inside to inside":   {serveAt(t, inside, redirects(secret)), ""},
		"outside to inside":  {serveAt(t, outside, redirects(secret)), "redirects to the address 127.0.0.2"},
		"outside twice, to inside": {serveAt(t, outside, redirects(serveAt(t, outside, redirects(secret)))),
			"redirects to the address 127.0.0.2"},
		"another scheme": {serveAt(t, outside, redirects("file:///etc/hostname")), `the scheme "file"`},
		"itself": {serveAt(t, outside, func(out http.ResponseWriter, r *http.Request) {
			http.Redirect(out, r, "/", http.StatusFound)
		}), "more than 10 times"},
	} {
		t.Run(name, func(t *testing.T) {
			stores := objects.New(objects.Options{})
			stores.TreatAsPrivate(private)
			found, err := stores.List(t.Context(), c.from+"/a?token=secret")
			if c.want == "" && (err != nil || len(found) != 1) {
				t.Fatalf("%v, %v", found, err)
			}
			if c.want != "" && (!objects.IsKind(err, objects.Invalid) || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "token")) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestIsPrivate_Addresses(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": false, "2606:4700::1111": false, "127.0.0.1": true, "10.1.2.3": true, "172.16.0.1": true,
		"192.168.1.1": true, "169.254.169.254": true,
		"100.64.0.1": true, "0.0.0.0": true, "::1": true, "::": true, "fe80::1": true, "fd00:ec2::254": true,
		"64:ff9b::a9fe:a9fe": true, "224.0.0.1": true,
	} {
		if got := objects.IsPrivate(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
