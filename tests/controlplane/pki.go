package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is the folder with all keys, certificates and tokens of one control plane. They are made once: a folder that is
// complete is used as it is, so that a control plane can be started again on its data.
type pki struct{ dir string }

func (p pki) path(name string) string { return filepath.Join(p.dir, name) }

const (
	caCert       = "ca.crt" // signs the serving certificate and the clients' ones
	servingCert  = "serving.crt"
	servingKey   = "serving.key"
	adminCert    = "admin.crt" // CN=admin, O=system:masters
	adminKey     = "admin.key"
	proxyCACert  = "front-proxy-ca.crt" // signs the identity that the API server shows to aggregated ones
	proxyCert    = "front-proxy.crt"
	proxyKey     = "front-proxy.key"
	accountKey   = "service-account.key"
	tokenFile    = "tokens.csv"
	adminToken   = "admin.token" // written last: it tells that the folder is complete
	mastersGroup = "system:masters"
)

// makePKI fills DIR/pki unless it is complete.
func makePKI(dir string) (pki, error) {
	p := pki{dir: filepath.Join(dir, "pki")}
	if _, err := os.Stat(p.path(adminToken)); err == nil {
		return p, nil
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return p, err
	}
	ca, err := newAuthority("controlplane-ca")
	if err != nil {
		return p, err
	}
	proxyCA, err := newAuthority("controlplane-front-proxy-ca")
	if err != nil {
		return p, err
	}
	token := make([]byte, 24)
	if _, err := rand.Read(token); err != nil {
		return p, err
	}
	bearer := hex.EncodeToString(token)
	account, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return p, err
	}
	for _, step := range []func() error{
		func() error { return p.writeCert(caCert, ca.cert.Raw) },
		func() error { return p.writeCert(proxyCACert, proxyCA.cert.Raw) },
		func() error { return p.writeKey(accountKey, account) },
		func() error {
			return p.issue(ca, servingCert, servingKey, x509.Certificate{
				Subject:     pkix.Name{CommonName: "kube-apiserver"},
				ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
				DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
				IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
			})
		},
		func() error {
			return p.issue(ca, adminCert, adminKey, x509.Certificate{
				Subject:     pkix.Name{CommonName: "admin", Organization: []string{mastersGroup}},
				ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			})
		},
		func() error {
			return p.issue(proxyCA, proxyCert, proxyKey, x509.Certificate{
				Subject:     pkix.Name{CommonName: "front-proxy"},
				ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			})
		},
		func() error {
			return p.write(tokenFile, []byte(fmt.Sprintf("%s,admin-by-token,admin-by-token,%q\n", bearer, mastersGroup)))
		},
		func() error { return p.write(adminToken, []byte(bearer)) },
	} {
		if err := step(); err != nil {
			return p, fmt.Errorf("making certificates in %s: %w", p.dir, err)
		}
	}
	return p, nil
}

// authority is a certificate authority that lives only while the folder is made.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(name string) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	template := x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	raw, err := sign(template, nil, key, key)
	if err != nil {
		return authority{}, err
	}
	cert, err := x509.ParseCertificate(raw)
	return authority{cert: cert, key: key}, err
}

// sign makes a certificate for key; without an issuer it signs itself.
func sign(template x509.Certificate, issuer *x509.Certificate, key, issuerKey crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	// Clocks of containers are at times behind.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().AddDate(1, 0, 0)
	if issuer == nil {
		issuer = &template
	}
	return x509.CreateCertificate(rand.Reader, &template, issuer, key.Public(), issuerKey)
}

func (p pki) issue(by authority, certName, keyName string, template x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	raw, err := sign(template, by.cert, key, by.key)
	if err != nil {
		return err
	}
	if err := p.writeKey(keyName, key); err != nil {
		return err
	}
	return p.writeCert(certName, raw)
}

func (p pki) writeCert(name string, raw []byte) error {
	return p.write(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

func (p pki) writeKey(name string, key *ecdsa.PrivateKey) error {
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return p.write(name, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}))
}

func (p pki) write(name string, content []byte) error {
	return os.WriteFile(p.path(name), content, 0o600)
}

func (p pki) read(name string) ([]byte, error) { return os.ReadFile(p.path(name)) }
