package objects_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loaderd/internal/objects"
	"loaderd/internal/objecttest"
)

// atHome gives the test a home folder with files of AWS's programs.
func atHome(t *testing.T, config, keys string) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(home, ".aws", "config")) // the library determines the home folder once
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(home, ".aws", "credentials"))
	if err := os.Mkdir(filepath.Join(home, ".aws"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"config": config, "credentials": keys, "token": "web-token\n"} {
		if err := os.WriteFile(filepath.Join(home, ".aws", name), []byte(strings.ReplaceAll(text, "HOME", home)),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	awsConfig = `
[default]
region = eu-north-1

[profile keys]
aws_access_key_id = INCONFIG
aws_secret_access_key = %(aws_access_key_id)s;se#c=ret\
Region = eu-north-1 # the near one

[profile keys.more]
region = eu-north-1

[profile process]
credential_process = printf '{"Version": 1, "AccessKeyId": "%s", "SecretAccessKey": "s", "SessionToken": "t"}' PROCESS

[profile reader]
role_arn = arn:aws:iam::1:role/reader
source_profile = base
external_id = +ext
region = eu-north-1

[profile chained]
role_arn = arn:aws:iam::1:role/chained
source_profile = reader
region = eu-north-1

[profile itself]
role_arn = arn:aws:iam::1:role/itself
source_profile = itself
region = eu-north-1
aws_access_key_id = ITSKEY
aws_secret_access_key = s

[profile web]
role_arn = arn:aws:iam::1:role/web
web_identity_token_file = HOME/.aws/token

[profile onmachine]
role_arn = arn:aws:iam::1:role/onmachine
credential_source = Ec2InstanceMetadata
region = eu-north-1

[profile inbox]
role_arn = arn:aws:iam::1:role/inbox
credential_source = EcsContainer
region = eu-north-1

[profile forbidden]
role_arn = arn:aws:iam::1:role/forbidden
source_profile = base
region = eu-north-1

[profile empty]
region = eu-north-1

[profile sso]
sso_session = work

[profile device]
role_arn = arn:aws:iam::1:role/x
mfa_serial = arn:aws:iam::1:mfa/me
source_profile = base

[profile ring]
role_arn = arn:aws:iam::1:role/x
source_profile = gnir
[profile gnir]
role_arn = arn:aws:iam::1:role/x
source_profile = ring

[profile nosource]
role_arn = arn:aws:iam::1:role/x
[profile gone]
role_arn = arn:aws:iam::1:role/x
source_profile = nowhere
[profile half]
aws_access_key_id = HALF
[profile fails]
credential_process = echo topsecret >&2; exit 3
[profile chatty]
credential_process = echo topsecret
`
	awsKeys = `
[base]
aws_access_key_id = BASE
aws_secret_access_key = s

[both]
aws_access_key_id = BOTH
aws_secret_access_key = s
aws_session_token = tok
`
)

type env map[string]string

// Credentials of S3 are searched in the locations of AWS's programs, in their order. Invalid configured credentials
// are an error, and requests are then not sent anonymously.
func TestAWSAccess_CredentialOrder(t *testing.T) {
	for name, x := range map[string]struct {
		env     env
		machine bool
		asks    string // credentials of every request
		denied  string // if set, the error contains it and no request is sent
	}{
		"nobody": {},
		"environment": {env: env{"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "tok",
			"AWS_PROFILE": "keys"}, asks: "ENV:tok"},
		"half an environment": {env: env{"AWS_SECRET_ACCESS_KEY": "topsecret"},
			denied: "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set"},
		"keys in config":     {env: env{"AWS_PROFILE": "keys"}, asks: "INCONFIG"},
		"keys in both":       {env: env{"AWS_DEFAULT_PROFILE": "both"}, asks: "BOTH:tok"},
		"a process":          {env: env{"AWS_PROFILE": "process"}, asks: "PROCESS:t"},
		"a role":             {env: env{"AWS_PROFILE": "reader"}, asks: "READER:BASE+ext"},
		"a role of a role":   {env: env{"AWS_PROFILE": "chained"}, asks: "CHAINED:READER:BASE+ext"},
		"a role by itself":   {env: env{"AWS_PROFILE": "itself"}, asks: "ITSELF:ITSKEY"},
		"a role by a token":  {env: env{"AWS_PROFILE": "web"}, asks: "WEB:web-token"},
		"a role of machines": {env: env{"AWS_PROFILE": "onmachine"}, machine: true, asks: "ONMACHINE:MACHINE1:t"},
		"a role of boxes": {env: env{"AWS_PROFILE": "inbox", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "GIVER/box",
			"AWS_CONTAINER_AUTHORIZATION_TOKEN": "open"}, asks: "INBOX:BOX:boxed"},
		"a web identity": {env: env{"AWS_WEB_IDENTITY_TOKEN_FILE": "HOME/.aws/token",
			"AWS_ROLE_ARN": "arn:aws:iam::1:role/pod"},
			machine: true, asks: "POD:web-token"},
		"a container": {env: env{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "GIVER/box",
			"AWS_CONTAINER_AUTHORIZATION_TOKEN": "open"},
			machine: true, asks: "BOX:boxed"},
		"the machine":                 {machine: true, asks: "MACHINE1:t"},
		"the machine, with a profile": {env: env{"AWS_PROFILE": "empty"}, machine: true, asks: "MACHINE1:t"},
		"an empty profile":            {env: env{"AWS_PROFILE": "empty"}, denied: "no EC2 IMDS role found"},
		"a profile within another":    {env: env{"AWS_PROFILE": "keys.more"}, denied: "no EC2 IMDS role found"},
		"no such profile": {env: env{"AWS_PROFILE": "none"}, machine: true,
			denied: "shared config profile, none"},
		"sso":                   {env: env{"AWS_PROFILE": "sso"}, machine: true, denied: "SSO session section, work"},
		"a device":              {env: env{"AWS_PROFILE": "device"}, machine: true, denied: "MFA enabled"},
		"a ring":                {env: env{"AWS_PROFILE": "ring"}, machine: true, denied: "of profile ring"},
		"a role of nobody":      {env: env{"AWS_PROFILE": "nosource"}, machine: true, denied: "AccessDenied"},
		"a source that is gone": {env: env{"AWS_PROFILE": "gone"}, machine: true, denied: "profile, nowhere"},
		"half a pair": {env: env{"AWS_PROFILE": "half"}, machine: true,
			denied: "partial credentials found for profile"},
		"a process that fails": {env: env{"AWS_PROFILE": "fails"}, machine: true,
			denied: "credential_process of the profile fails"},
		"a process that says nothing": {env: env{"AWS_PROFILE": "chatty"}, machine: true,
			denied: "credential_process of the profile fails"},
		"a role that is not given": {env: env{"AWS_PROFILE": "forbidden"}, machine: true,
			denied: "api error AccessDenied"},
	} {
		t.Run(name, func(t *testing.T) {
			s3, g := corpusOf(t, []byte("data")), newGiver(t)
			g.gives(x.machine, time.Hour)
			atHome(t, awsConfig, awsKeys)
			t.Setenv("AWS_REGION", "")
			t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
			t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", g.URL)
			t.Setenv("AWS_ENDPOINT_URL_STS", g.URL)
			for name, value := range x.env {
				t.Setenv(name, strings.NewReplacer("HOME", os.Getenv("HOME"), "GIVER", g.URL).Replace(value))
			}
			s := objects.New(objects.Options{RetryTimeout: patience})
			all, err := s.List(t.Context(), "s3://"+bucket+"/*.jsonl")
			if x.denied != "" {
				if !objects.IsKind(err, objects.Denied) || !strings.Contains(err.Error(), x.denied) ||
					!strings.HasPrefix(err.Error(), "s3://corpus: ") ||
					strings.Contains(err.Error(), "topsecret") {
					t.Errorf("%v; want that it reports %q", err, x.denied)
				}
				if n := len(s3.Web.Requests()); n > 0 {
					t.Errorf("%d requests without credentials", n)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if data, err := readAll(t.Context(), s, all[0], 0); err != nil || string(data) != "data" {
				t.Errorf("%q, %v", data, err)
			}
			for _, r := range s3.Web.Requests() {
				if got := objecttest.Asked(r); got != x.asks {
					t.Errorf("%s %s is asked by %q, want %q", r.Method, r.URL, got, x.asks)
				}
			}
		})
	}
}

// Credentials are requested once from a machine without a role, for all buckets and requests, and once per session
// from one with a role.
func TestAWSAccess_RequestsMachineCredentialsOnce(t *testing.T) {
	s3, g := corpusOf(t, []byte("data")), newGiver(t)
	s3.Web.Put("/another/b.jsonl", []byte("data"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", g.URL)
	use := func(s *objects.Stores) {
		t.Helper()
		for _, pattern := range []string{"s3://" + bucket + "/**", "s3://another/**"} {
			if data, err := readAll(t.Context(), s, list(t, s, pattern)[0], 0); err != nil || string(data) != "data" {
				t.Errorf("%s: %q, %v", pattern, data, err)
			}
		}
	}
	var s *objects.Stores
	for _, x := range []struct {
		role  bool
		lasts time.Duration
		want  int
	}{{false, 0, 1}, {true, time.Hour, 1}} {
		g.gives(x.role, x.lasts)
		s = objects.New(objects.Options{RetryTimeout: patience})
		use(s)
		if n := g.times(); n != x.want {
			t.Errorf("a machine with a role: %v, for %v, was asked %d times for 4 requests; want %d", x.role, x.lasts, n, x.want)
		}
	}
}
