package check

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// project returns the result of docker compose config, from Compose's library.
func project(t *testing.T, files ...string) *types.Project {
	t.Helper()
	p, err := load(t, []string{"GRAFANA_PASSWORD=a-password-of-a-test"}, files...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// load reads Compose files with an environment.
func load(t *testing.T, environment []string, files ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions(files, cli.WithName("loaderd"), cli.WithConsistency(true),
		cli.WithEnv(environment))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

// Grafana has no default password: it does not start without one that the operator sets.
func TestCompose_RefusesGrafanaWithoutPassword(t *testing.T) {
	for _, environment := range [][]string{nil, {"GRAFANA_PASSWORD="}} {
		if _, err := load(t, environment, "../compose.yaml"); err == nil ||
			!strings.Contains(err.Error(), "GRAFANA_PASSWORD") || !strings.Contains(err.Error(), "deploy/.env") {
			t.Errorf("with %q: %v", environment, err)
		}
	}
	if s := project(t,
		"../compose.yaml").Services["grafana"]; *s.Environment["GF_SECURITY_ADMIN_PASSWORD"] != "a-password-of-a-test" {
		t.Errorf("Grafana has the password %q", *s.Environment["GF_SECURITY_ADMIN_PASSWORD"])
	}
}

func TestCompose_AcceptsImagesByDigest(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	p, err := load(t, []string{"GRAFANA_PASSWORD=x", "PROMETHEUS_IMAGE=prom/prometheus" + digest,
		"GRAFANA_IMAGE=grafana/grafana" + digest}, "../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"prometheus", "grafana"} {
		if s := p.Services[name]; !strings.HasSuffix(s.Image, digest) {
			t.Errorf("%s runs %s", name, s.Image)
		}
	}
}

// Both combinations of the files are complete: services, volumes, mounted files and build files exist.
func TestCompose_FilesAreComplete(t *testing.T) {
	for name, files := range map[string][]string{"monitoring": {"../compose.yaml"},
		"cluster": {"../compose.yaml", "../compose.cluster.yaml"}} {
		t.Run(name, func(t *testing.T) {
			p := project(t, files...)
			for _, s := range p.Services {
				for _, v := range s.Volumes {
					if v.Type == "bind" {
						if _, err := os.Stat(v.Source); err != nil {
							t.Errorf("service %s mounts %v", s.Name, err)
						}
					}
				}
				if s.Build != nil {
					if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
						t.Errorf("service %s is built from %v", s.Name, err)
					}
				}
			}
			if p.Services["prometheus"].Image == "" || p.Services["grafana"].Image == "" {
				t.Error("Prometheus or Grafana is missing")
			}
		})
	}
}

// Each of the three daemons has a configuration that loaderd accepts and unique addresses, and is one of the peers.
func TestCompose_ClusterConfigurationIsValid(t *testing.T) {
	p := project(t, "../compose.yaml", "../compose.cluster.yaml")
	seen := map[string]string{}
	for _, name := range []string{"loaderd-1", "loaderd-2", "loaderd-3"} {
		s, there := p.Services[name]
		if !there {
			t.Fatalf("no service %s", name)
		}
		if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" || s.Privileged {
			t.Errorf("%s may do more than it needs", name)
		}
		cmd := exec.CommandContext(t.Context(), loaderd(t), "serve", "-c", "../image/loaderd.yaml", "--print-config")
		for key, value := range s.Environment {
			cmd.Env = append(cmd.Env, key+"="+*value)
			if strings.HasSuffix(key, "LISTEN") {
				if other := seen[*value]; other != "" {
					t.Errorf("%s and %s listen on %s", name, other, *value)
				}
				seen[*value] = name
				if host, _, err := net.SplitHostPort(*value); err != nil || host != "127.0.0.1" {
					t.Errorf("%s listens on %s, want loopback", name, *value)
				}
			}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("loaderd refuses the configuration of %s: %v\n%s", name, err, out)
		}
		peers, listen := *s.Environment["LOADERD_STREAM__CLUSTER__PEERS"], *s.Environment["LOADERD_STREAM__CLUSTER__LISTEN"]
		if len(strings.Split(peers, ",")) != 3 || !strings.Contains(peers, listen) {
			t.Errorf("%s listens for routes on %s, peers are %s", name, listen, peers)
		}
	}
	text, err := os.ReadFile("../prometheus/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for listen, name := range seen {
		if strings.Contains(listen, ":98") && !strings.Contains(string(text), listen) {
			t.Errorf("Prometheus does not ask %s at %s", name, listen)
		}
	}
}
