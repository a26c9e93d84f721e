package objects

import (
	"cmp"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	// machinePatience is how long the machine's metadata service is waited for, as AWS's programs do: outside of their cloud nobody answers. It is waited for
	// twice, for it has an old and a new interface.
	machinePatience = time.Second
	// containerPatience is how long the service of a container may take, which is there where the environment names it.
	containerPatience = 5 * time.Second
)

func inContainer() bool {
	return os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" || os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != ""
}

// ofContainer asks the service that the container's environment names.
func (a *awsIdentity) ofContainer() (credentials.Value, error) {
	if !inContainer() {
		return credentials.Value{}, denied("the environment names no service that gives a container its credentials")
	}
	v, err := (&credentials.IAM{Client: near(containerPatience)}).Retrieve()
	if err != nil {
		return v, &Error{Kind: Down, Err: errors.New("the container's credentials can not be had")}
	}
	return v, nil
}

// ofMachine asks the machine's metadata service for the credentials of its role.
func (a *awsIdentity) ofMachine() (credentials.Value, error) {
	if strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true") {
		return credentials.Value{}, denied("AWS_EC2_METADATA_DISABLED has the machine not asked for its role")
	}
	service := strings.TrimSuffix(cmp.Or(os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), credentials.DefaultIAMRoleEndpoint), "/")
	v, err := (&credentials.IAM{Client: near(machinePatience), Endpoint: service}).Retrieve()
	if err != nil {
		return v, &Error{Kind: Down, Err: errors.New("the credentials of the machine's role can not be had")}
	}
	a.role = true
	return v, nil
}

// near is a client for services of this machine, which no proxy knows and which are asked seldom.
func near(patience time.Duration) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.DisableKeepAlives = nil, true
	return &http.Client{Transport: transport, Timeout: patience}
}
