package check

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const chart = "../helm/loaderd"

// kinds are the types that manifests are decoded into, without unknown fields: Kubernetes' and the Prometheus
// operator's own types.
var kinds = map[string]func() any{
	"v1/ConfigMap":                            func() any { return &core.ConfigMap{} },
	"v1/Service":                              func() any { return &core.Service{} },
	"v1/ServiceAccount":                       func() any { return &core.ServiceAccount{} },
	"apps/v1/StatefulSet":                     func() any { return &apps.StatefulSet{} },
	"policy/v1/PodDisruptionBudget":           func() any { return &policy.PodDisruptionBudget{} },
	"networking.k8s.io/v1/NetworkPolicy":      func() any { return &networking.NetworkPolicy{} },
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return &monitoring.ServiceMonitor{} },
	"monitoring.coreos.com/v1/PrometheusRule": func() any { return &monitoring.PrometheusRule{} },
	"cert-manager.io/v1/Certificate":          func() any { return &certificate{} },
}

// certificate has the fields of cert-manager's Certificate that the chart uses. Its own types require a whole
// controller.
type certificate struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		SecretName string                             `json:"secretName"`
		IssuerRef  struct{ Name, Kind, Group string } `json:"issuerRef"`
		Usages     []string                           `json:"usages"`
		DNSNames   []string                           `json:"dnsNames"`
		PrivateKey struct {
			Algorithm      string `json:"algorithm"`
			Size           int    `json:"size"`
			RotationPolicy string `json:"rotationPolicy"`
		} `json:"privateKey"`
	} `json:"spec"`
}

// render returns the result of helm template, from Helm's library.
func render(t *testing.T, values map[string]any) (map[string]string, error) {
	t.Helper()
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "pretrain", Namespace: "training", Revision: 1, IsInstall: true}
	top, err := util.ToRenderValues(c, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, top)
	if err != nil {
		return nil, err
	}
	return files, nil
}

func given(t *testing.T, name string) (values map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "values", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// manifests returns the objects of rendered files, in order, as text and decoded.
func manifests(t *testing.T, files map[string]string) (text string, objects map[string]any) {
	t.Helper()
	objects = map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(files[name])))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var head struct {
				APIVersion string                `json:"apiVersion"`
				Kind       string                `json:"kind"`
				Metadata   struct{ Name string } `json:"metadata"`
			}
			if err := yaml.Unmarshal(document, &head); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			if head.Kind == "" {
				continue
			}
			of := kinds[head.APIVersion+"/"+head.Kind]
			if of == nil {
				t.Fatalf("%s: %s/%s is no kind that is known here", name, head.APIVersion, head.Kind)
			}
			object := of()
			if err := yaml.UnmarshalStrict(document, object); err != nil {
				t.Errorf("%s: %s %s: %v", name, head.Kind, head.Metadata.Name, err)
			}
			key := head.Kind + " " + head.Metadata.Name
			if objects[key] != nil {
				t.Errorf("%s is duplicated", key)
			}
			objects[key] = object
			if head.Kind == "PrometheusRule" || strings.HasSuffix(head.Metadata.Name, "-board") { // files that exist elsewhere
				continue
			}
			text += "---\n" + strings.TrimSpace(string(document)) + "\n"
		}
	}
	return text, objects
}

// A chart reads no file outside its folder, and links are lost in some copies of a repository. So the chart has
// copies of the files, which are equal to the originals.
func TestChart_FilesEqualOriginals(t *testing.T) {
	for copied, of := range map[string]string{
		"../helm/loaderd/files/board.json":         "../grafana/loaderd.json",
		"../helm/loaderd/files/loaderd.rules.yaml": "../prometheus/loaderd.rules.yaml",
	} {
		want, err := os.ReadFile(of)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(copied); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is not %s as it is now (%v): copy it", copied, of, err)
		}
	}
}

// Chart and image have the version of the latest release, because a chart uses the image of its own version.
func TestChart_HasVersionOfRelease(t *testing.T) {
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	last := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)`).FindSubmatch(changes)
	text, err := os.ReadFile("../helm/loaderd/Chart.yaml")
	if err != nil || last == nil {
		t.Fatal(err, last)
	}
	var chart struct{ Version, AppVersion string }
	if err := yaml.Unmarshal(text, &chart); err != nil || chart.Version != string(last[1]) ||
		chart.AppVersion != string(last[1]) {
		t.Errorf("the chart has version %s and takes image %s, and %s is the newest of CHANGELOG.md: %v", chart.Version,
			chart.AppVersion, last[1], err)
	}
}

// Every example of values renders into objects that decode completely into Kubernetes' own types, and into a
// configuration that loaderd accepts.
func TestChart_ExamplesRender(t *testing.T) {
	entries, err := os.ReadDir("testdata/values")
	if err != nil || len(entries) < 4 {
		t.Fatalf("%d files of values: %v", len(entries), err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".yaml")
		t.Run(name, func(t *testing.T) {
			values := given(t, name)
			files, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			text, objects := manifests(t, files)
			golden(t, filepath.Join("rendered", name+".yaml"), text)
			set := objects["StatefulSet pretrain-loaderd"].(*apps.StatefulSet)
			configuration := objects["ConfigMap pretrain-loaderd"].(*core.ConfigMap).Data["loaderd.yaml"]
			loads(t, configuration, set.Spec.Template.Spec.Containers[0])
			restricted(t, set.Spec.Template.Spec)
			fits(t, objects, set)
			linted := lint.RunAll(chart, values, "training")
			for _, m := range linted.Messages {
				if m.Severity > support.InfoSev {
					t.Errorf("lint: %v", m)
				}
			}
		})
	}
}

// loads checks that loaderd accepts the configuration as it is in the pod.
func loads(t *testing.T, configuration string, c core.Container) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "loaderd.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), loaderd(t), "serve", "-c", file, "--print-config")
	for _, v := range c.Env {
		if strings.HasPrefix(v.Name, "LOADERD_") {
			cmd.Env = append(cmd.Env, v.Name+"="+strings.ReplaceAll(v.Value, "$(POD_NAME)", "pretrain-loaderd-1"))
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("loaderd refuses the configuration: %v\n%s\n%s", err, out, configuration)
	}
}

// restricted checks a pod against the restricted Pod Security Standard, and for a read-only root.
func restricted(t *testing.T, p core.PodSpec) {
	t.Helper()
	s := p.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
		s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's security context is %v", s)
	}
	if p.HostNetwork || p.HostPID || p.HostIPC || p.AutomountServiceAccountToken == nil ||
		*p.AutomountServiceAccountToken {
		t.Error("the pod shares something of its host, or has a token of Kubernetes")
	}
	for _, c := range p.Containers {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil ||
			!*s.ReadOnlyRootFilesystem ||
			s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || s.Capabilities.Add != nil {
			t.Errorf("the security context of %s is %v", c.Name, s)
		}
		if c.StartupProbe == nil || c.LivenessProbe == nil || c.ReadinessProbe == nil ||
			c.Resources.Requests.Memory().IsZero() {
			t.Errorf("%s lacks probes or resources", c.Name)
		}
	}
	for _, v := range p.Volumes {
		if v.HostPath != nil {
			t.Errorf("volume %s is of the host", v.Name)
		}
	}
}

// fits checks that names match: ports, volumes, labels.
func fits(t *testing.T, objects map[string]any, set *apps.StatefulSet) {
	t.Helper()
	pod, labels := set.Spec.Template.Spec, set.Spec.Template.Labels
	ports, volumes := map[string]bool{}, map[string]bool{}
	for _, p := range pod.Containers[0].Ports {
		ports[p.Name] = true
	}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range set.Spec.VolumeClaimTemplates {
		volumes[c.Name] = true
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("volume %s is mounted, and is not there", m.Name)
		}
		delete(volumes, m.Name)
	}
	if len(volumes) > 0 {
		t.Errorf("volumes that nothing mounts: %v", volumes)
	}
	meets := func(what string, selector map[string]string) {
		for k, v := range selector {
			if labels[k] != v {
				t.Errorf("%s selects %s=%s, pods have %q", what, k, v, labels[k])
			}
		}
	}
	meets("the StatefulSet", set.Spec.Selector.MatchLabels)
	services := 0
	for key, object := range objects {
		switch o := object.(type) {
		case *core.Service:
			services++
			meets(key, o.Spec.Selector)
			for _, p := range o.Spec.Ports {
				if !ports[p.TargetPort.StrVal] {
					t.Errorf("%s leads to port %s, which pods do not have", key, p.TargetPort.StrVal)
				}
			}
		case *policy.PodDisruptionBudget:
			meets(key, o.Spec.Selector.MatchLabels)
		case *networking.NetworkPolicy:
			meets(key, o.Spec.PodSelector.MatchLabels)
			open := map[string]bool{}
			for _, rule := range o.Spec.Ingress {
				for _, p := range rule.Ports {
					open[p.Port.StrVal] = true
				}
			}
			if diff := cmp.Diff(ports, open); diff != "" {
				t.Errorf("ports of pods and of the network policy: -pods +policy:\n%s", diff)
			}
			confines(t, o)
		case *monitoring.ServiceMonitor:
			service := objects["Service "+set.Spec.ServiceName].(*core.Service)
			for k, v := range o.Spec.Selector.MatchLabels {
				if service.Labels[k] != v {
					t.Errorf("the ServiceMonitor selects %s=%s, the headless Service has %q", k, v, service.Labels[k])
				}
			}
			if service.Labels[o.Spec.JobLabel] != "loaderd" {
				t.Errorf("the job is %q; the rule LoaderdDown goes by loaderd", service.Labels[o.Spec.JobLabel])
			}
		}
	}
	if services != 2 || objects["Service "+set.Spec.ServiceName] == nil {
		t.Errorf("%d services, and %v", services, objects["Service "+set.Spec.ServiceName])
	}
}

// confines checks that a policy names the peers of every rule, and that no ingress rule permits every pod of the
// cluster.
func confines(t *testing.T, p *networking.NetworkPolicy) {
	t.Helper()
	if !slices.Equal(p.Spec.PolicyTypes, []networking.PolicyType{networking.PolicyTypeIngress,
		networking.PolicyTypeEgress}) {
		t.Errorf("the network policy is for %v, want ingress and egress", p.Spec.PolicyTypes)
	}
	for _, rule := range p.Spec.Ingress {
		for _, from := range rule.From {
			if n := from.NamespaceSelector; n != nil && len(n.MatchLabels) == 0 && len(n.MatchExpressions) == 0 {
				t.Errorf("every namespace may connect to %v", rule.Ports)
			}
		}
		if len(rule.From) == 0 {
			t.Errorf("every host may connect to %v", rule.Ports)
		}
	}
	for _, rule := range p.Spec.Egress {
		if len(rule.To) == 0 || len(rule.Ports) == 0 {
			t.Errorf("an egress rule without peers or ports: %v", rule)
		}
	}
}

func TestChart_EgressCoversConfiguredAddresses(t *testing.T) {
	for name, want := range map[string]string{"alone": "53 53", "cluster": "53 53 routes",
		"nats": "53 53 4222 4318 443 8443 80"} {
		files, err := render(t, given(t, name))
		if err != nil {
			t.Fatal(err)
		}
		_, objects := manifests(t, files)
		var ports []string
		for _, rule := range objects["NetworkPolicy pretrain-loaderd"].(*networking.NetworkPolicy).Spec.Egress {
			for _, p := range rule.Ports {
				ports = append(ports, p.Port.String())
			}
		}
		if got := strings.Join(ports, " "); got != want {
			t.Errorf("%s: egress to ports %s, want %s", name, got, want)
		}
	}
}

// TestMemoryLimits_CoverDefaults compares the memory limits of the service and of the chart with the maximum that the
// defaults permit. That is the budgets, 64 MiB in addition, and a third of the sum for the garbage collector.
func TestMemoryLimits_CoverDefaults(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), loaderd(t), "serve", "--print-config").Output()
	if err != nil {
		t.Fatal(err)
	}
	var defaults struct {
		Flight struct {
			SendBytes string `json:"send_bytes"`
		} `json:"flight"`
		Serve struct {
			CacheBytes string `json:"cache_bytes"`
		} `json:"serve"`
		Stream struct {
			BufferBytes string `json:"buffer_bytes"`
		} `json:"stream"`
	}
	if err := yaml.Unmarshal(out, &defaults); err != nil {
		t.Fatal(err)
	}
	need := resource.MustParse("64Mi")
	for _, size := range []string{defaults.Flight.SendBytes, defaults.Serve.CacheBytes, defaults.Stream.BufferBytes} {
		need.Add(resource.MustParse(strings.TrimSuffix(size, "B")))
	}
	unit, err := os.ReadFile("../systemd/loaderd.service")
	if err != nil {
		t.Fatal(err)
	}
	limit := regexp.MustCompile(`(?m)^MemoryMax=(\d+[KMGT])$`).FindSubmatch(unit)
	if limit == nil {
		t.Fatal("the service has no MemoryMax")
	}
	files, err := render(t, given(t, "alone"))
	if err != nil {
		t.Fatal(err)
	}
	_, objects := manifests(t, files)
	pod := objects["StatefulSet pretrain-loaderd"].(*apps.StatefulSet).Spec.Template.Spec
	for what, have := range map[string]resource.Quantity{
		"MemoryMax":               resource.MustParse(string(limit[1]) + "i"),
		"resources.limits.memory": *pod.Containers[0].Resources.Limits.Memory(),
	} {
		if have.Value() < need.Value()*4/3 {
			t.Errorf("%s is %s; the defaults allow %s, and the collector a third more", what, &have, &need)
		}
	}
}

// A change of the configuration restarts the pods; a change of the chart's other objects does not.
func TestChart_ConfigurationChangeRestartsPods(t *testing.T) {
	of := func(change func(map[string]any)) string {
		values := given(t, "cluster")
		change(values)
		files, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		_, objects := manifests(t, files)
		return objects["StatefulSet pretrain-loaderd"].(*apps.StatefulSet).Spec.Template.Annotations["loaderd/config"]
	}
	same := of(func(map[string]any) {})
	if other := of(func(v map[string]any) {
		v["config"] = map[string]any{"run": "other"}
	}); len(same) != 64 || other == same {
		t.Errorf("%q for one configuration, %q for another", same, other)
	}
	if other := of(func(v map[string]any) { v["service"] = map[string]any{"type": "LoadBalancer"} }); other != same {
		t.Error("another type of Service rolls the pods")
	}
}

// Invalid values are refused with the remedy in the message.
func TestChart_RefusesInvalidValues(t *testing.T) {
	for _, test := range []struct {
		name   string
		change map[string]any
		want   string
	}{
		{"two daemons", map[string]any{"replicas": 2}, "has 3 or more"},
		{"a cluster without TLS", map[string]any{"tls": map[string]any{"secret": ""}}, "routes between daemons require TLS"},
		{"a cluster without a secret", map[string]any{"cluster": map[string]any{"secret": ""}}, "kubectl create secret"},
		{"nobody is asked", map[string]any{"auth": map[string]any{"identitiesSecret": ""}}, "or set auth.insecure"},
		{"a misspelt value", map[string]any{"replica": 5}, "replica"},
		{"a wrong type", map[string]any{"replicas": "three"}, "replicas"},
		{"a size without sense", map[string]any{"storage": map[string]any{"size": "big"}}, "storage"},
	} {
		t.Run(test.name, func(t *testing.T) {
			values := given(t, "cluster")
			maps.Copy(values, test.change)
			if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// The schema has exactly the values of values.yaml.
func TestChart_SchemaMatchesValues(t *testing.T) {
	var schema, values map[string]any
	for file, into := range map[string]*map[string]any{"values.schema.json": &schema, "values.yaml": &values} {
		text, err := os.ReadFile(filepath.Join(chart, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	var compare func(path string, schema, values map[string]any)
	compare = func(path string, schema, values map[string]any) {
		known, _ := schema["properties"].(map[string]any)
		if known == nil {
			return
		}
		for name := range values {
			if known[name] == nil {
				t.Errorf("values.schema.json lacks %s%s", path, name)
			}
		}
		for name, of := range known {
			value, there := values[name]
			if !there && path+name != "global" && !strings.HasPrefix(path, "tls.issuer") {
				t.Errorf("values.yaml lacks %s%s", path, name)
			}
			if below, ok := value.(map[string]any); ok {
				compare(path+name+".", of.(map[string]any), below)
			}
		}
	}
	compare("", schema, values)
}
