package objects_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/internal/objecttest"
)

// giver is a fake of the credential services of AWS: the security token service, that of containers, and the metadata
// service of a machine.
type giver struct {
	*httptest.Server

	mu      sync.Mutex
	machine bool          // it has a role
	lasts   time.Duration // lifetime of the machine's credentials
	asked   int           // number of credential requests to the machine
}

func newGiver(t *testing.T) *giver {
	g := &giver{}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

// gives makes the machine return credentials of a role with that lifetime, or none, and resets the number of
// requests.
func (g *giver) gives(role bool, lasts time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.machine, g.lasts, g.asked = role, lasts, 0
}

// times returns how often credentials were requested from the machine.
func (g *giver) times() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

func (g *giver) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	const asJSON = `{"Code": "Success", "AccessKeyId": %q, "SecretAccessKey": "s", "Token": %q, "Expiration": %q}`
	const machine = "/latest/meta-data/iam/security-credentials/"
	switch path := r.URL.Path; {
	case path == "/box" && r.Header.Get("Authorization") == "open":
		fmt.Fprintf(out, asJSON, "BOX", "boxed", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	case path == "/latest/api/token":
		g.asked++
		out.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
		_, _ = out.Write([]byte("session"))
	case !g.machine && strings.HasPrefix(path, "/latest/"):
		http.NotFound(out, r)
	case path == machine:
		_, _ = out.Write([]byte("reader"))
	case path == machine+"reader" && r.Header.Get("X-Aws-Ec2-Metadata-Token") == "session":
		fmt.Fprintf(out, asJSON, fmt.Sprintf("MACHINE%d", g.asked), "t", time.Now().Add(g.lasts).UTC().Format(time.RFC3339))
	case path == "/" && r.Method == http.MethodPost:
		g.role(out, r)
	default:
		http.NotFound(out, r)
	}
}

// role returns keys from which a test sees how the role was requested.
func (g *giver) role(out http.ResponseWriter, r *http.Request) {
	_, name, _ := strings.Cut(r.FormValue("RoleArn"), "role/")
	by := objecttest.Asked(r) + strings.TrimSpace(r.FormValue("WebIdentityToken"))
	action := r.FormValue("Action")
	if name == "forbidden" || action == "AssumeRole" && !strings.Contains(r.Header.Get("Authorization"),
		"/eu-north-1/sts/aws4_request") {
		out.WriteHeader(http.StatusForbidden)
		_, _ = out.Write([]byte("<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>"))
		return
	}
	fmt.Fprintf(out,
		`<%sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%sResult><Credentials><AccessKeyId>%s</AccessKeyId>`+
			`<SecretAccessKey>s</SecretAccessKey><SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials></%sResult></%sResponse>`,
		action, action, strings.ToUpper(name), by+r.FormValue("ExternalId"),
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339), action, action)
}
