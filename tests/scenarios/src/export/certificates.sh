# Makes two authorities, and folders for clients with the authority that they trust, as GnuTLS's clients look for them.

key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'

authority() { # authority NAME
    mkdir "$1"
    openssl req -x509 $key -keyout "$1/ca-key.pem" -out "$1/ca-cert.pem" -days 2 -subj "/CN=$1"
}

sign() { # sign AUTHORITY NAME DAYS: makes AUTHORITY/NAME-key.pem and NAME-cert.pem for this machine
    openssl req -new $key -keyout "$1/$2-key.pem" -out "$1/$2.csr" -subj /CN=onego -addext subjectAltName=IP:127.0.0.1
    openssl x509 -req -CA "$1/ca-cert.pem" -CAkey "$1/ca-key.pem" -copy_extensions copy -in "$1/$2.csr" \
        -out "$1/$2-cert.pem" -days "$3"
}

client() { # client FOLDER TRUSTED [SIGNER DAYS]
    mkdir "$1"
    cp "$2/ca-cert.pem" "$1"
    [ -z "$3" ] || { sign "$3" client "$4"; cp "$3/client-cert.pem" "$3/client-key.pem" "$1"; }
}

authority ours
authority other
sign ours server 2
client good ours ours 2
client expired ours ours -1
client wrong ours other 2
client distrustful other ours 2
client bare ours
